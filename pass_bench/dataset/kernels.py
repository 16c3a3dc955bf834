"""Which kernels a fusing compiler would make of a graph: one Inductor lowering, stopped after scheduling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from pass_bench.errors import HarnessFailure

_TAG = "passnet_node_"


class _Scheduled(Exception):
    """Raised once the scheduler has fused, so that no code is generated."""


def scheduled_kernels(module: fx.GraphModule, inputs: Sequence[Any]) -> tuple[frozenset[str], ...]:
    """For each kernel Inductor schedules, the names of the nodes of `module` that it computes.

    A node may be in several kernels (a mean that is reduced in one and used in the next), and views are in
    none. The nodes are traced through their stack traces, which AOTAutograd copies to what it makes of them.
    HarnessFailure if Inductor fails before it schedules."""
    from torch._inductor import compile_fx, config, graph

    views = frozenset(node.name for node in module.graph.nodes if _is_view(node))
    traces = {node: node.meta.get("stack_trace") for node in module.graph.nodes}
    found: list[tuple[frozenset[str], ...]] = []
    update_scheduler = graph.GraphLowering._update_scheduler

    def stop_after_scheduling(lowering: Any) -> None:
        update_scheduler(lowering)
        found.append(tuple(kernel - views for kernel in _kernels_of(lowering)))
        raise _Scheduled

    try:
        for node in traces:
            node.meta["stack_trace"] = f"{_TAG}{node.name}"
        graph.GraphLowering._update_scheduler = stop_after_scheduling  # type: ignore
        with torch.no_grad(), config.patch(force_disable_caches=True, compile_threads=1):
            compile_fx.compile_fx(module, list(inputs))
    except Exception as error:
        if not found:
            raise HarnessFailure(f"Inductor does not schedule this graph: {_first_line(error)}") from error
    finally:
        graph.GraphLowering._update_scheduler = update_scheduler  # type: ignore
        for node, trace in traces.items():
            node.meta["stack_trace"] = trace
    return found[0] if found else ()


def first_statements(module: fx.GraphModule, count: int) -> fx.GraphModule:
    """The first `count` nodes of a graph as a graph, returning what the rest reads of them."""
    kept = [n for n in module.graph.nodes if n.op not in ("placeholder", "output", "get_attr")][:count]
    rest = set(module.graph.nodes) - set(kept)
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr") or node in kept:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    crossing = [copies[n] for n in kept if any(user in rest for user in n.users)]
    graph.output(tuple(n for n in crossing if n.meta.get("kind") != "other"))
    return fx.GraphModule(module, graph)


def _kernels_of(lowering: Any) -> tuple[frozenset[str], ...]:
    """Nodes per kernel: those it makes a buffer for, and those that are computed on the way and nowhere
    before.

    An IR node also carries the origins of the views that it reads, i.e. of other kernels' nodes.
    """
    mentioned: list[set[str]] = []
    made: list[set[str]] = []
    for kernel in lowering.scheduler.nodes:
        parts = [part.node for part in kernel.get_nodes() if part.node is not None]
        mentioned.append({n for part in parts for n in map(_tag, getattr(part, "origins", None) or ()) if n})
        made.append({n for part in parts if (n := _tag(part.get_origin_node()))})
    made_somewhere = set[str]().union(*made)
    seen: set[str] = set()
    kernels = []
    for own, names in zip(made, mentioned, strict=True):
        kernels.append(frozenset(own | (names - made_somewhere - seen)))
        seen |= names
    return tuple(kernels)


def mark_views(module: fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Run the graph on fake inputs and note at every node whether its result is a view of an input."""

    class Marking(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            result = super().run_node(n)
            n.meta["example_value"] = result
            return result

    with torch.no_grad():
        Marking(module).run(*inputs)
    for node in module.graph.nodes:
        if node.op not in ("placeholder", "output", "get_attr"):
            node.meta["view"] = _is_view(node)


def _is_view(node: fx.Node) -> bool:
    """Whether the result shares its storage with an input that the node does not change."""
    if "view" in node.meta:
        return bool(node.meta["view"])
    result = node.meta.get("example_value")
    name = str(node.target)
    changes = (
        name.endswith("_") or "built-in function i" in name or True in (*node.args, *node.kwargs.values())
    )
    if not isinstance(result, torch.Tensor) or changes:
        return False
    inputs = [argument.meta.get("example_value") for argument in node.all_input_nodes]
    storages = {t.untyped_storage()._cdata for t in inputs if isinstance(t, torch.Tensor)}
    return result.untyped_storage()._cdata in storages


def _tag(node: fx.Node | None) -> str | None:
    trace = "" if node is None else str(node.meta.get("stack_trace", ""))
    return trace.removeprefix(_TAG) if trace.startswith(_TAG) else None


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
