"""A pattern prepared for matching: its outputs, its operators, and the order in which to look for them."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from torch import fx

from pass_bench.fx.canonical import Form, forms


@dataclass(frozen=True)
class Step:
    """Look for `node` among the users of what `via` stands for, or anywhere."""

    node: fx.Node
    via: fx.Node | None


class Pattern:
    """The nodes of a pattern graph with what matching asks of them."""

    def __init__(self, gm: fx.GraphModule):
        self.gm = gm
        self.placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        self.nodes = [n for n in gm.graph.nodes if n.op not in ("placeholder", "output")]
        self.output: Any = gm.graph.output_node().args[0]
        self.outputs = frozenset(gm.graph.output_node().all_input_nodes)
        self._forms = {n: forms(n) for n in self.nodes if n.op in ("call_function", "call_method")}
        self._users = {n: [u for u in n.users if u.op != "output"] for n in gm.graph.nodes}
        self.sort_order = [n for n in reversed(self.nodes) if not self._users[n]] + self.nodes

    def forms(self, node: fx.Node) -> tuple[Form, ...]:
        """The canonical readings of a pattern node."""
        return self._forms.get(node, ())

    def keys(self, node: fx.Node) -> frozenset[Hashable]:
        """The operators a pattern node reads as."""
        return frozenset(form.key for form in self.forms(node)) or frozenset({node.op})

    def label(self, node: fx.Node) -> str:
        """The operator of a pattern node in words."""
        readings = self.forms(node)
        return readings[0].label if readings else f"{node.op} {node.target}"

    def users(self, node: fx.Node) -> list[fx.Node]:
        """The pattern nodes that use a node."""
        return self._users[node]

    @functools.cached_property
    def steps(self) -> list[Step]:
        """The choices of a search: after each, everything upstream of its node follows."""
        covered: set[fx.Node] = set()
        steps: list[Step] = []
        while True:
            step = self._next(covered)
            if step is None:
                return steps
            steps.append(step)
            self._cover(step.node, covered)

    def _next(self, covered: set[fx.Node]) -> Step | None:
        left = [n for n in reversed(self.nodes) if n not in covered]
        for node in left:
            for argument in node.all_input_nodes:
                if argument in covered and argument.op != "placeholder":
                    return Step(node, argument)
        for node in left:
            for argument in node.all_input_nodes:
                if argument in covered:
                    return Step(node, argument)
        sinks = [n for n in left if not self._users[n]]
        return Step(sinks[0], None) if sinks else None

    def _cover(self, node: fx.Node, covered: set[fx.Node]) -> None:
        work = [node]
        while work:
            here = work.pop()
            if here not in covered:
                covered.add(here)
                work += here.all_input_nodes
