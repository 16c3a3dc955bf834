"""What a pattern matches: several outputs, shared inputs, literals, overlaps, order, convexity."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from pass_bench.fx import Match, find_matches, graph_facts, trace_pattern
from pass_bench.fx.match import GraphView, search


def found(pattern: Any, target: Callable[..., Any], *inputs: Any) -> list[list[str]]:
    """Names of the graph nodes of each match, in the order of the pattern's nodes."""
    gm = trace_pattern(target)
    matches = find_matches(trace_pattern(pattern), gm, graph_facts(gm, inputs) if inputs else None)
    return [names(match) for match in matches]


def names(match: Match) -> list[str]:
    return [node.name for node in match.nodes.values()]


def bound(pattern: Any, target: Callable[..., Any]) -> list[dict[str, Any]]:
    """What each placeholder stands for, nodes by name."""
    matches = find_matches(trace_pattern(pattern), trace_pattern(target))
    return [
        {p.name: v.name if isinstance(v, fx.Node) else v for p, v in m.arguments.items()} for m in matches
    ]


def test_every_occurrence_is_found_in_graph_order_overlaps_too() -> None:
    def target(x):
        a = x + 1
        b = a + 1
        return b + 1

    assert found(lambda x: x + 1, target) == [["a"], ["b"], ["add"]]
    assert found(lambda x: x + 1 + 1, target) == [["b", "a"], ["add", "b"]]


def test_an_inner_value_used_outside_must_be_an_output() -> None:
    def target(x):
        a = torch.relu(x)
        b = a * 2
        return a, b

    assert found(lambda x: torch.relu(x) * 2, target) == []

    def pattern(x):
        y = torch.relu(x)
        return y * 2, y

    assert found(pattern, target) == [["b", "a"]]


@pytest.mark.parametrize("swap", [False, True])
def test_outputs_may_come_in_any_order(swap: bool) -> None:
    def target(x, y):
        left = x.sin()
        right = left + y
        other = left * y
        return right, other

    def pattern(a, b):
        s = a.sin()
        t, u = s + b, s * b
        return (u, t) if swap else (t, u)

    assert [sorted(m) for m in found(pattern, target)] == [["left", "other", "right"]]


def test_an_argument_bound_twice_is_the_same_value() -> None:
    assert found(lambda x: x * x, lambda a, b: a * b) == []
    assert found(lambda x: x * x, lambda a, b: b * b) == [["mul"]]
    assert found(lambda x, k: (x + k) * k, lambda a: (a + 2) * 2) == [["mul", "add"]]
    assert found(lambda x, k: (x + k) * k, lambda a: (a + 2) * 2.0) == []
    assert found(lambda x, k: (x + k) * k, lambda a: (a + 2) * 3) == []


def test_arguments_bind_literals_lists_and_defaults() -> None:
    def target(x, w):
        y = F.layer_norm(x, (8,), w)
        return torch.cat([y, x], 1)

    assert bound(lambda x, s, w, eps: F.layer_norm(x, s, w, None, eps), target) == [
        {"x": "x", "s": (8,), "w": "w", "eps": 1e-05}
    ]
    (one,) = bound(lambda parts: torch.cat(parts, dim=1), target)
    assert [node.name for node in one["parts"]] == ["y", "x"]


def test_an_unused_argument_stands_for_none() -> None:
    assert bound(lambda x, unused: x.cos(), lambda a: a.cos()) == [{"x": "a", "unused": None}]


def test_dead_results_and_effects_match() -> None:
    def target(x, y):
        x[0] = y
        dead = x.sin()  # noqa: F841
        x.add_(1)
        return ()

    assert found(lambda a: a.sin(), target) == [["dead"]]

    def store(a, b):
        a[0] = b

    assert found(store, target) == [["setitem"]]

    def all_of_it(a, b):
        a[0] = b
        a.sin()
        a.add_(1)
        return ()

    assert sorted(found(all_of_it, target)[0]) == ["add_", "dead", "setitem"]


def test_an_argument_may_not_be_part_of_the_match() -> None:
    assert found(lambda a, b: torch.relu(a) + b, lambda x: (r := torch.relu(x)) + r) == []


def test_no_path_may_leave_the_match_and_come_back() -> None:
    def target(x):
        a = x.sin()
        b = a.exp()
        return a + b

    def pattern(x, y):
        s = x.sin()
        return s, s + y

    assert found(pattern, target) == []
    assert found(lambda x: (s := x.sin()) + s.exp(), target) == [["add", "b", "a"]]


def test_a_write_in_between_keeps_a_match_apart() -> None:
    def target(x):
        a = x.sin()
        x.add_(1)
        b = x.cos()
        return a, b

    def pattern(x):
        return x.sin(), x.cos()

    assert found(pattern, target) == []  # from schemas alone
    assert found(pattern, target, torch.ones(2)) == []
    assert len(found(pattern, lambda x: (x.sin(), x.cos()), torch.ones(2))) == 1


def test_a_write_through_a_view_or_a_second_input_counts() -> None:
    def target(x, y):
        a = x.sin()
        y.view(-1).mul_(2)
        return a, x.cos()

    def pattern(x):
        return x.sin(), x.cos()

    base = torch.ones(4)
    assert found(pattern, target, base, base[:2]) == []
    assert len(found(pattern, target, base, torch.ones(2))) == 1


def test_random_draws_keep_their_order() -> None:
    def target(x):
        a = torch.rand_like(x)
        b = torch.rand_like(a)
        c = torch.rand_like(x)
        return a, b, c

    def pattern(x):
        return torch.rand_like(x), torch.rand_like(x)

    assert found(pattern, target, torch.ones(2)) == []


def test_patterns_that_only_arguments_connect() -> None:
    def target(x, y, z):
        return x + z, y * z, y * x

    pairs = found(lambda a, b, c: (a + c, b * c), target)
    assert pairs == [["mul", "add"]]
    assert len(found(lambda a, b, c, d: (a + c, b * d), target)) == 2


def test_equal_siblings_give_every_assignment_once() -> None:
    def target(x):
        return x.sin(), x.sin(), x.sin()

    assert len(found(lambda x: (x.sin(), x.sin()), target)) == 6


def test_the_search_stops_aloud() -> None:
    def target(x):
        return [x.sin() for _ in range(40)]

    def pattern(a):
        return tuple(a.sin() for _ in range(6))

    result = search(trace_pattern(pattern), GraphView(trace_pattern(target)), step_limit=5_000, keep=100)
    assert len(result.matches) == 100
    assert result.stopped == "the search stopped after 5000 steps or 100 matches"


def test_a_graph_built_by_hand_with_a_signature_is_a_pattern() -> None:
    graph = fx.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.output(graph.call_function(torch.ops.aten.mul.Tensor, (a, b)))
    gm = fx.GraphModule({}, graph)
    gm.__signature__ = inspect.signature(lambda a, b: a)  # type: ignore[assignment]
    assert found(gm, lambda x, y: x * y) == [["mul"]]


def test_item_assignment_and_in_place_patterns() -> None:
    def target(x, y):
        x[..., 1:] = y
        y += x
        y *= 2
        return y

    def pattern(a, b):
        a[..., 1:] = b
        b += a
        return b

    assert found(pattern, target, torch.ones(2, 3), torch.ones(2, 2)) == [["y_1", "setitem"]]
    assert found(lambda a, b: operator.iadd(a, b), target) == [["y_1"]]


def test_a_long_chain_does_not_recurse() -> None:
    def chain(x):
        for i in range(1500):
            x = x + i
        return x

    assert len(found(chain, chain)[0]) == 1500
