"""The rewritten graph in a CUDA graph: what is left when the host does next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pass_bench.compilers.base import CallFailed, Compiled


class PassMgrGraph:
    """What `pass_mgr_direct` runs, recorded and replayed.

    Inputs at the addresses of the recording are read there, others are copied; outputs are not overwritten by
    the next call while the caller holds them (runtime/replay.py). An option, never the default: the caller's
    kernels must not depend on anything that a recording cannot see.
    """

    uses_passes = True
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "rewrite")
    devices: tuple[str, ...] = ("cuda",)

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        import torch

        from pass_bench.fx import capture, rewrite
        from pass_bench.runtime import build_direct
        from pass_bench.runtime.checked import Checked
        from pass_bench.runtime.replay import Replay

        rewritten = rewrite(capture(module, graph), rules, inputs)
        try:
            direct = build_direct(rewritten.module, inputs)  # runs the graph some times, on copies
        except Exception as error:
            raise CallFailed(str(error)) from error
        replays: list[Replay] = []

        def replayed(kind: tuple[Any, ...]) -> Callable[..., Any]:
            replay = Replay(direct, kind, direct.may_write)
            replays.append(replay)
            return replay

        checked = Checked(len(inputs), replayed, direct, alignment=False)
        with torch.no_grad():
            checked.prepare(tuple(inputs))(*inputs)
        notes = [*direct.report().unplanned]
        if replays[0].why_plain:
            notes.insert(0, f"not replayed: {replays[0].why_plain}")
        return Compiled(checked.entry, rewritten.reports, note="; ".join(notes))
