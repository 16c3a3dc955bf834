"""Dynamo captures, passes rewrite, Dynamo's guarded callable runs it: as published numbers were made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pass_bench.compilers.base import Compiled, first_call
from pass_bench.results.records import PassReport


def merge_reports(reports: Sequence[Sequence[PassReport]]) -> tuple[PassReport, ...]:
    """Add up what each pass did in the segments of one graph."""
    merged: dict[str, PassReport] = {}
    for segment in reports:
        for report in segment:
            known = merged.get(report.name)
            if known is not None:
                matched = known.matched + report.matched
                report = PassReport(
                    name=report.name,
                    matched=matched,
                    replaced=known.replaced + report.replaced,
                    skipped=report.skipped,
                    nearest_miss="" if matched else (known.nearest_miss or report.nearest_miss),
                )
            merged[report.name] = report
    return tuple(merged.values())


class PassMgr:
    """A Dynamo backend that rewrites each segment it is given."""

    uses_passes = True
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "rewrite")
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        import torch

        from pass_bench.fx import rewrite

        segments: list[Sequence[PassReport]] = []

        def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            rewritten = rewrite(gm, rules, example_inputs)
            segments.append(rewritten.reports)
            call: Callable[..., Any] = rewritten.module.forward
            return call

        call = torch.compile(module, backend=backend)
        first_call(call, inputs)
        return Compiled(call, merge_reports(segments), graph_breaks=max(0, len(segments) - 1))
