"""All small groups of a graph's nodes that a pattern could stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import fx

from pass_bench.fx.order import Order


def connected_groups(
    gm: fx.GraphModule, largest: int, keep: Callable[[fx.Node], bool] = lambda node: True
) -> Iterator[list[fx.Node]]:
    """Every set of at most `largest` call nodes that values connect, once each, in graph order within.

    Enumerates connected induced subgraphs by the ESU algorithm (Wernicke 2006). `keep` leaves nodes out.
    """
    nodes = [n for n in gm.graph.nodes if n.op in ("call_function", "call_method") and keep(n)]
    index = {node: i for i, node in enumerate(nodes)}
    near: list[set[int]] = [set() for _ in nodes]
    for node in nodes:
        for user in node.users:
            if user in index:
                near[index[node]].add(index[user])
                near[index[user]].add(index[node])

    def extend(group: list[int], border: set[int], root: int, seen: set[int]) -> Iterator[list[int]]:
        yield group
        if len(group) == largest:
            return
        left = sorted(border)
        while left:
            chosen = left.pop()
            fresh = {i for i in near[chosen] if i > root and i not in seen}
            yield from extend([*group, chosen], {*left, *fresh}, root, seen | fresh)

    for root in range(len(nodes)):
        border = {i for i in near[root] if i > root}
        for group in extend([root], border, root, border | set(range(root + 1))):
            yield [nodes[i] for i in sorted(group)]


def convex_groups(
    gm: fx.GraphModule, order: Order, largest: int, keep: Callable[[fx.Node], bool] = lambda node: True
) -> Iterator[list[fx.Node]]:
    """Those connected groups that no path leaves and re-enters."""
    for group in connected_groups(gm, largest, keep):
        if not order.between(order.mask(group)):
            yield group
