"""Simplify a graph for inputs of fixed metadata: constants, identities, views and dead nodes.

Works on a copy; the facts of `observe` say what each node did. Mutations, random numbers, replacement
functions and mode switches are never removed or reordered.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._C._dynamo import guards

from pass_bench.runtime.observe import Fact, Observation, View, is_replacement

_reinterpret_tensor = guards._reinterpret_tensor  # type: ignore[attr-defined]

METADATA_METHODS = frozenset(
    {"size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "is_floating_point"}
    | {"is_complex", "element_size", "get_device", "__len__", "type"}
)
METADATA_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "itemsize", "nbytes", "requires_grad"}
)
PURE_MODULES = frozenset({"operator", "_operator", "math"})
PURE_FUNCTIONS = frozenset(
    {len, max, min, int, float, bool, abs, round, sum, tuple, torch.numel, torch.is_floating_point}
    | {torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_not}
)
CONSTANTS = (int, float, bool, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
CHECKS = frozenset({"_check", "_check_is_size", "_check_value", "_log_api_usage_once"})


@dataclass(frozen=True)
class Folded:
    """A simplified copy of a graph, the facts of its nodes, and the copy of each old node.

    `special`: whether it relies on anything that was observed, so that it only holds for inputs of that kind.
    """

    graph: fx.Graph
    facts: dict[fx.Node, Fact]
    copies: dict[fx.Node, fx.Node]
    special: bool


def fold(gm: fx.GraphModule, observation: Observation, trusted: Collection[fx.Node] = ()) -> Folded:
    """Simplify a graph.

    `trusted` are the replacement functions whose results have the same metadata on every call; what follows
    from the results of others is left as it is.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    result = graph.graph_copy(gm.graph, copies)
    graph.output(result)
    facts = {copies[node]: replace(fact) for node, fact in observation.facts.items() if node in copies}
    for fact in facts.values():
        fact.same_as = copies.get(fact.same_as) if fact.same_as is not None else None
        fact.views = tuple(
            View(copies[view.of], view.offset, view.layout) if view is not None else None
            for view in fact.views
        )
    if observation.plain:
        return Folded(graph, facts, copies, special=False)
    _distrust(graph, facts, {copies[node] for node in trusted})
    changes = _fold_values(graph, facts) + _fold_identities(graph, facts)
    if not any(fact.changes_metadata for fact in facts.values()):
        changes += _fold_views(graph, facts)
    _remove_dead(graph, facts)
    return Folded(graph, facts, copies, special=changes > 0)


def _distrust(graph: fx.Graph, facts: dict[fx.Node, Fact], trusted: set[fx.Node]) -> None:
    for node in graph.nodes:
        fact = facts.get(node)
        if fact is None:
            continue
        if is_replacement(node):
            fact.depends_on_data = node not in trusted
            fact.changes_metadata &= node not in trusted  # a plan that did would have been refused
        if any(facts[source].depends_on_data for source in node.all_input_nodes if source in facts):
            fact.depends_on_data = True


def is_metadata_query(node: fx.Node) -> bool:
    """Whether a node's Python value follows from metadata and Python values alone."""
    if node.op == "call_method":
        return node.target in METADATA_METHODS
    if node.op != "call_function":
        return False
    if node.target is getattr:
        return node.args[1] in METADATA_ATTRIBUTES
    try:
        if node.target in PURE_FUNCTIONS:
            return True
    except TypeError:
        return False
    return getattr(node.target, "__module__", "") in PURE_MODULES


def _fold_values(graph: fx.Graph, facts: dict[fx.Node, Fact]) -> int:
    changes = 0
    for node in list(graph.nodes):
        fact = facts.get(node)
        if fact is None or not fact.is_value or fact.depends_on_data or fact.dispatched:
            continue
        if node.op == "placeholder":
            foldable = isinstance(fact.value, CONSTANTS)
        else:
            foldable = is_metadata_query(node) and (fact.value is None or isinstance(fact.value, CONSTANTS))
        if foldable:
            changes += 1
            _replace_by_constant(node, fact.value)
    return changes


def _replace_by_constant(node: fx.Node, value: Any) -> None:
    for user in list(node.users):
        user.args = fx.map_arg(user.args, lambda n: value if n is node else n)
        user.kwargs = fx.map_arg(user.kwargs, lambda n: value if n is node else n)


def _fold_identities(graph: fx.Graph, facts: dict[fx.Node, Fact]) -> int:
    """Drop calls that hand back their own argument and run nothing: dropout in eval, `.to` the same dtype."""
    changes = 0
    for node in list(graph.nodes):
        fact = facts.get(node)
        if fact is None or fact.same_as is None or fact.dispatched or is_replacement(node):
            continue
        if node.op in ("call_function", "call_method") and not fact.depends_on_data:
            source = fact.same_as
            changes += 1
            node.replace_all_uses_with(source)
            for other in facts.values():
                if other.same_as is node:
                    other.same_as = source
                other.views = tuple(
                    View(source, v.offset, v.layout) if v is not None and v.of is node else v
                    for v in other.views
                )

    return changes


def _fold_views(graph: fx.Graph, facts: dict[fx.Node, Fact]) -> int:
    """Make every view directly from the tensor that owns its memory, in one step however long the chain."""
    roots: dict[fx.Node, tuple[fx.Node, int]] = {}
    for node in list(graph.nodes):
        view = _view_made_by(node, facts)
        if view is None or facts[view.of].layout is None or facts[view.of].depends_on_data:
            continue
        root, before = roots.get(view.of, (view.of, 0))
        offset = before + view.offset
        with graph.inserting_before(node):
            made = graph.create_node(
                "call_function",
                _reinterpret_tensor,
                (root, view.layout.size, view.layout.stride, offset),
                name="alias",
            )
        facts[made] = Fact(layout=view.layout, dispatched=0)
        roots[made] = (root, offset)
        roots[node] = (root, offset)
        node.replace_all_uses_with(made)
        for other in facts.values():
            other.views = tuple(
                View(made, v.offset, v.layout) if v is not None and v.of is node else v for v in other.views
            )

    return len(roots)


def _view_made_by(node: fx.Node, facts: dict[fx.Node, Fact]) -> View | None:
    fact = facts.get(node)
    if fact is None or node.op not in ("call_function", "call_method") or fact.depends_on_data:
        return None
    if fact.views and not fact.is_sequence:
        return fact.views[0]
    if node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
        return None
    whole, index = facts.get(node.args[0]), node.args[1]
    if whole is None or not whole.is_sequence or not whole.views or whole.depends_on_data:
        return None
    return whole.views[index] if isinstance(index, int) else None


def _remove_dead(graph: fx.Graph, facts: dict[fx.Node, Fact]) -> None:
    for node in reversed(list(graph.nodes)):
        if node.users or node.op in ("placeholder", "output") or is_replacement(node):
            continue
        if node.op == "get_attr" or _is_removable(node, facts.get(node)):
            graph.erase_node(node)


def _is_removable(node: fx.Node, fact: Fact | None) -> bool:
    if fact is None or fact.mutates or fact.random or node.op == "call_module":
        return False
    if not fact.is_value:
        return True
    if is_metadata_query(node):
        return True
    return getattr(node.target, "__name__", "") in CHECKS and not node.all_input_nodes
