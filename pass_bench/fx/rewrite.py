"""Putting replacement functions where patterns match."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from pass_bench.fx.capture import trace_pattern
from pass_bench.fx.facts import Facts, NodeFacts, graph_facts
from pass_bench.fx.match import GraphView, Match, search
from pass_bench.fx.order import Order
from pass_bench.fx.plan import Pattern
from pass_bench.fx.replacement import Arguments, emit, trace_arguments
from pass_bench.passes.rule import PassRule
from pass_bench.results.records import PassReport


@dataclass(frozen=True)
class Rewritten:
    """A rewritten graph and what each pass did to it, in the order of the passes."""

    module: fx.GraphModule
    reports: tuple[PassReport, ...]


def rewrite(gm: fx.GraphModule, rules: Sequence[PassRule], inputs: Sequence[Any] | None = None) -> Rewritten:
    """Apply passes in order; each sees the graph that the ones before it left.

    `inputs` stand for the placeholders (see `graph_facts`) and tell what may not be reordered. The graph
    given stays as it is. Raises BadInput where a pattern or its replacement_args cannot be traced.
    """
    view = GraphView(gm, graph_facts(gm, inputs))
    reports = []
    for rule in rules:
        view, report = apply(view, rule)
        reports.append(report)
    return Rewritten(view.gm, tuple(reports))


def apply(view: GraphView, rule: PassRule) -> tuple[GraphView, PassReport]:
    """Apply one pass; where it matches nowhere the graph comes back as it is."""
    pattern = Pattern(trace_pattern(rule.pattern))
    arguments = trace_arguments(rule.replacement_args, len(pattern.placeholders))
    found = search(pattern, view)
    if not found.matches:
        assert found.miss is not None
        miss = f"{found.miss.reached} of {found.miss.of} nodes matched: {found.miss.reason}"
        if found.stopped:
            miss += f"; {found.stopped}"
        return view, PassReport(name=rule.name, matched=0, replaced=0, nearest_miss=miss)
    chosen = select(found.matches, view.order)
    function = rule.replacement_func()
    replacements = [Replacement(pattern, match, arguments, function) for match in chosen]
    module, facts = replace(view.gm, view.facts, replacements)
    report = PassReport(
        name=rule.name, matched=len(found.matches), replaced=len(chosen), skipped=found.stopped
    )
    return GraphView(module, facts), report


def select(matches: Sequence[Match], order: Order) -> list[Match]:
    """The matches that are replaced: in graph order, those that overlap no earlier one and stay convex
    beside it.

    `order` is contracted along the way.
    """
    chosen: list[Match] = []
    taken = 0
    for match in matches:
        mask = order.mask(match.matched)
        if mask & taken or order.between(mask):
            continue
        order.contract(mask)
        taken |= mask
        chosen.append(match)
    return chosen


@dataclass(frozen=True)
class Replacement:
    """A match and the call that takes its place."""

    pattern: Pattern
    match: Match
    arguments: Arguments
    function: Callable[..., Any]


def replace(
    gm: fx.GraphModule, facts: Facts, replacements: Sequence[Replacement]
) -> tuple[fx.GraphModule, Facts]:
    """A copy of the graph with a call in place of each match, and its facts.

    The matches must not overlap and must be convex together. What a call touches, writes and draws is what
    the nodes in its place did.
    """
    graph = fx.Graph()
    env: dict[fx.Node, Any] = {}
    new_facts: dict[fx.Node, NodeFacts] = {}
    unit_of = {node: one for one in replacements for node in one.match.matched}
    for unit in _units(gm, facts, unit_of):
        if isinstance(unit, fx.Node):
            env[unit] = graph.node_copy(unit, lambda n: env[n])
            if unit in facts.nodes:
                new_facts[env[unit]] = facts.nodes[unit]
            continue
        before = len(graph.nodes)
        results = emit(graph, unit.pattern, unit.match, unit.arguments, unit.function, env)
        together = _merged([facts.nodes[n] for n in unit.match.matched if n in facts.nodes])
        new_facts.update(dict.fromkeys(list(graph.nodes)[before:], together))
        for old, new in results.items():
            new.meta = dict(old.meta)
            env[old] = new
    module = fx.GraphModule(gm, graph, class_name=type(gm).__name__)
    module.graph.lint()
    renewed = dict(zip(graph.nodes, module.graph.nodes, strict=True))
    return module, Facts({renewed[n]: f for n, f in new_facts.items()}, facts.unknown)


def _merged(parts: Sequence[NodeFacts]) -> NodeFacts:
    return NodeFacts(
        frozenset().union(*(p.touches for p in parts)),
        frozenset().union(*(p.writes for p in parts)),
        any(p.random for p in parts),
        any(p.barrier for p in parts),
    )


def _units(
    gm: fx.GraphModule, facts: Facts, unit_of: Mapping[fx.Node, Replacement]
) -> list[fx.Node | Replacement]:
    """Nodes and replacements in an order that respects values and order edges and else keeps the graph's."""
    nodes = list(gm.graph.nodes)
    place: dict[int, int] = {}  # by identity of a node or replacement: where its last node stands
    for i, node in enumerate(nodes):
        place[id(unit_of.get(node, node))] = i
    place_of = {node: place[id(unit_of.get(node, node))] for node in nodes}
    edges = {(place_of[n], place_of[u]) for n in nodes for u in n.users}
    edges |= {(place_of[a], place_of[b]) for a, b in facts.order_edges(gm.graph)}
    after: dict[int, list[int]] = {}
    waiting = dict.fromkeys(place_of.values(), 0)
    for a, b in edges:
        if a != b:
            after.setdefault(a, []).append(b)
            waiting[b] += 1
    ready = [p for p, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered: list[fx.Node | Replacement] = []
    while ready:
        here = heapq.heappop(ready)
        ordered.append(unit_of.get(nodes[here], nodes[here]))
        for there in after.get(here, ()):
            waiting[there] -= 1
            if not waiting[there]:
                heapq.heappush(ready, there)
    assert len(ordered) == len(waiting), "the matches are not convex together"
    return ordered
