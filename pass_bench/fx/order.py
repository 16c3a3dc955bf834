"""Which nodes of a graph must stay before which others, along values and along order edges."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from pass_bench.fx.facts import Facts


class Order:
    """Reachability over data and order edges, as one bit set of positions per node."""

    def __init__(self, gm: fx.GraphModule, facts: Facts):
        self.nodes: list[fx.Node] = list(gm.graph.nodes)
        self.position = {node: i for i, node in enumerate(self.nodes)}
        after: list[list[int]] = [[self.position[u] for u in node.users] for node in self.nodes]
        for earlier, later in facts.order_edges(gm.graph):
            after[self.position[earlier]].append(self.position[later])
        self.descendants = [0] * len(self.nodes)
        self.ancestors = [0] * len(self.nodes)
        for i in reversed(range(len(self.nodes))):
            for j in after[i]:
                self.descendants[i] |= (1 << j) | self.descendants[j]
        for i in range(len(self.nodes)):
            for j in after[i]:
                self.ancestors[j] |= (1 << i) | self.ancestors[i]

    def mask(self, nodes: Iterable[fx.Node]) -> int:
        """The bit set of some nodes."""
        mask = 0
        for node in nodes:
            mask |= 1 << self.position[node]
        return mask

    def between(self, mask: int) -> list[fx.Node]:
        """Nodes outside a set that lie on a path from the set back into it; none if the set is convex."""
        down = up = 0
        for i in bits(mask):
            down |= self.descendants[i]
            up |= self.ancestors[i]
        return [self.nodes[i] for i in bits(down & up & ~mask)]

    def after(self, mask: int) -> int:
        """Everything that must come after some node of a set, without the set."""
        down = 0
        for i in bits(mask):
            down |= self.descendants[i]
        return down & ~mask

    def contract(self, mask: int) -> None:
        """Treat a convex set as one node from now on: what precedes one of its nodes precedes all of them."""
        down, up = self.after(mask), 0
        for i in bits(mask):
            up |= self.ancestors[i]
        up &= ~mask
        for i in bits(mask | up):
            self.descendants[i] |= down | (mask & ~(1 << i))
        for i in bits(mask | down):
            self.ancestors[i] |= up | (mask & ~(1 << i))


def bits(mask: int) -> Iterable[int]:
    """Positions of the set bits, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
