"""Cutting a group of nodes out of a graph, as a graph of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import fx


@dataclass(frozen=True)
class Extracted:
    """A group as a graph: `arguments` are the outside producers, in the order of its placeholders.

    Its output is the tuple of the `results`, the nodes that are used outside the group or by nobody; `image`
    maps each node of the group to its copy.
    """

    module: fx.GraphModule
    arguments: tuple[fx.Node, ...]
    results: tuple[fx.Node, ...]
    image: dict[fx.Node, fx.Node]


def extract(nodes: Iterable[fx.Node], gm: fx.GraphModule, name: str = "Group") -> Extracted:
    """Cut `nodes`, given in graph order, out of `gm`, which keeps them."""
    group = list(nodes)
    inside = set(group)
    graph = fx.Graph()
    outside: dict[fx.Node, fx.Node] = {}
    for node in group:
        for argument in node.all_input_nodes:
            if argument not in inside and argument not in outside:
                outside[argument] = graph.placeholder(argument.name)
    image: dict[fx.Node, fx.Node] = {}
    env: dict[fx.Node, Any] = dict(outside)
    for node in group:
        image[node] = env[node] = graph.node_copy(node, lambda n: env[n])
    results = tuple(n for n in group if not n.users or any(user not in inside for user in n.users))
    graph.output(tuple(image[n] for n in results))
    return Extracted(fx.GraphModule(gm, graph, class_name=name), tuple(outside), results, image)
