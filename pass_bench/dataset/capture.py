"""Capture a module's forward as listings, through a `torch.compile` backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.listing import Kind, Listing, Statement, Value, read_listing
from pass_bench.dataset.measure import measure
from pass_bench.errors import BadInput

_NO_EFFECT = re.compile(
    r"torch\._C\._log_api_usage_once|torch\.amp\.autocast_mode\._exit_autocast"
    r"|torch\.amp\.autocast_mode\._enter_autocast\('\w+', [^,]+, False|torch\._C\._set_grad_enabled"
)


@dataclass(frozen=True)
class Captured:
    """One graph that Dynamo made: its listing, the module, and the inputs it was made for."""

    listing: Listing
    module: fx.GraphModule
    inputs: tuple[Any, ...]


def capture(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str,
    run: bool = True,
    whole_graph: bool = False,
) -> tuple[Captured, ...]:
    """The graphs of one call, in order: one, or more where Dynamo breaks the graph.

    With `run`, every value is measured while the graph runs; else, and on the meta device, statistics are
    estimated and nothing is computed. Shapes are static. Runs under `no_grad`; the module is used as it is.
    """
    made: list[Captured] = []

    def backend(graph_module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        position = len(made)
        made.append(_captured(graph_module, inputs, f"{name}_{position}" if position else name, None))
        if not run:
            return graph_module.forward

        def measured(*inputs: Any) -> Any:
            recorder = _Recorder(graph_module)
            result = recorder.run(*inputs)
            made[position] = _captured(graph_module, list(inputs), made[position].listing.name, recorder)
            return result

        return measured

    torch._dynamo.reset()
    settings = {
        "capture_scalar_outputs": True,
        "capture_dynamic_output_shape_ops": True,
        "assume_static_by_default": True,
        "automatic_dynamic_shapes": False,
    }
    with torch.no_grad(), torch._dynamo.config.patch(settings):
        compiled = torch.compile(module, backend=backend, fullgraph=whole_graph, dynamic=False)
        compiled(*args, **(kwargs or {}))
    if not made:
        raise BadInput("nothing was captured", path=name, expected="a forward with tensor operations")
    return tuple(made)


class _Recorder(fx.Interpreter):
    """Runs a graph and measures every value as it is made."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module)
        self.metas: dict[str, TensorMeta] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor):
            name = str(n.target) if n.op == "placeholder" else n.name
            self.metas[name] = measure(result, name)
        return result


def _captured(
    graph_module: fx.GraphModule, inputs: list[Any], name: str, recorder: _Recorder | None
) -> Captured:
    metas: dict[str, TensorMeta] = {}
    kinds: dict[str, Kind] = {}
    for node in graph_module.graph.nodes:
        if node.op == "output":
            continue
        variable = str(node.target) if node.op == "placeholder" else node.name
        example = node.meta.get("example_value")
        if isinstance(example, torch.Tensor):
            measured = recorder.metas.get(variable) if recorder is not None else None
            metas[variable] = measured or measure(example, variable)
        elif isinstance(example, int | float | bool | torch.SymInt):
            kinds[variable] = "symint" if node.op == "placeholder" else "number"
        elif example is not None:
            kinds[variable] = "other"
    listing = read_listing(graph_module.code, name, metas, kinds)
    return Captured(without_noise(listing), graph_module, tuple(inputs))


def without_noise(listing: Listing) -> Listing:
    """The listing without statements that say nothing about the computation: logging, disabled autocast."""
    read = set(listing.outputs)
    kept: list[Statement] = []
    for statement in reversed(listing.statements):
        if _NO_EFFECT.match(statement.text) and statement.result not in read:
            continue
        read.update(statement.reads)
        kept.append(statement)
    return replace(listing, statements=tuple(reversed(kept)))


def with_statistics_of(listing: Listing, measured: Listing) -> Listing:
    """The listing with the statistics of another one that has the same statements, shapes aside.

    For variants that are traced but not run. BadInput where the two differ in their operators.
    """
    if listing.operators != measured.operators or len(listing.values) != len(measured.values):
        raise BadInput("the variant has other operators", path=listing.name)
    values: list[Value] = []
    for value, other in zip(listing.values, measured.values, strict=True):
        if value.meta is None or other.meta is None:
            values.append(value)
            continue
        borrowed = replace(other.meta, name=value.meta.name, shape=value.meta.shape, dtype=value.meta.dtype)
        if borrowed.data is not None and len(borrowed.data) != borrowed.numel:
            low, high = min(borrowed.data, key=float), max(borrowed.data, key=float)  # type: ignore[arg-type]
            limits = {"min_val": low, "max_val": high} if borrowed.is_integer else {}
            borrowed = replace(borrowed, data=None, **limits)  # type: ignore[arg-type]
        values.append(replace(value, meta=borrowed))
    return replace(listing, values=tuple(values))
