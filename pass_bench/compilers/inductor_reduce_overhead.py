"""`torch.compile(mode="reduce-overhead")`: Inductor's own use of CUDA graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pass_bench.compilers.base import Compiled, first_call

RECORDING_CALLS = 3  # Inductor warms up, records, then replays


class InductorReduceOverhead:
    """As a user would call it in a loop: each call is a step, whose outputs the next one may overwrite."""

    uses_passes = False
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "inductor")
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        import torch

        compiled = torch.compile(module, mode="reduce-overhead")

        def call(*arguments: Any) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return compiled(*arguments)

        for _ in range(RECORDING_CALLS if device == "cuda" else 1):
            first_call(call, inputs)
        return Compiled(call, note="its outputs are overwritten by its next call")
