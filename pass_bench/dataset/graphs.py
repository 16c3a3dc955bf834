"""Graph directories as captures, so that they can be decomposed and varied like models."""

from __future__ import annotations

from typing import Any

import torch

from pass_bench.data.records import Graph
from pass_bench.dataset.capture import Captured
from pass_bench.dataset.record import record


def capture_graph(graph: Graph, *, check: bool = True) -> Captured:
    """Record a graph directory's module on its replayed inputs.

    Statistics are measured. BadInput or the module's own error where it does not run; `check` as in `record`.
    """
    from pass_bench.fx.load import load_module
    from pass_bench.inputs import make_inputs

    inputs: dict[str, Any] = dict(
        zip((argument.name for argument in graph.arguments), make_inputs(graph), strict=True)
    )
    return record(load_module(graph), inputs, name=graph.name, check=check)


def values_of(captured: Captured) -> dict[str, torch.Tensor]:
    """Every tensor of a captured graph by variable name, copied as it was when it was made."""

    class Keeping(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, torch.Tensor):
                kept[str(n.target) if n.op == "placeholder" else n.name] = result.clone()
            return result

    kept: dict[str, torch.Tensor] = {}
    inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in captured.inputs]
    with torch.no_grad():
        torch.manual_seed(0)
        Keeping(captured.module).run(*inputs)
    return kept
