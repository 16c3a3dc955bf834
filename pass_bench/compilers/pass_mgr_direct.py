"""Captured once, rewritten, then called behind one cheap check: what the passes themselves are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pass_bench.compilers.base import CallFailed, Compiled


class PassMgrDirect:
    """Our own capture and rewrite, run as straight code without Dynamo's guards."""

    uses_passes = True
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "rewrite")
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        from pass_bench.fx import capture, rewrite
        from pass_bench.runtime import build_direct

        rewritten = rewrite(capture(module, graph), rules, inputs)
        try:
            call = build_direct(rewritten.module, inputs)  # runs the graph some times, on copies
        except Exception as error:
            raise CallFailed(str(error)) from error
        report = call.report()
        unsettled = [
            f"{name} is not planned yet: no two recordings in a row agree" for name in report.pending
        ]
        note = "; ".join(dict.fromkeys([*report.unplanned, *unsettled]))  # one function may have many calls
        return Compiled(call, rewritten.reports, note=note)
