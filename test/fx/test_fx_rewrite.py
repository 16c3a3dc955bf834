"""Graphs before and after, as code."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pass_bench.errors import BadInput
from pass_bench.fx import rewrite, trace_pattern
from pass_bench.fx.source import to_python
from pass_bench.passes import PassRule


def fused(*args):
    """Stands for any kernel."""
    return args


def rule(pattern: Any, arguments: Callable[..., Any], function: Any = fused, name: str = "fuse") -> PassRule:
    return PassRule(name, pattern, arguments, lambda: function)


def code(gm: torch.fx.GraphModule) -> str:
    """The statements of a graph."""
    lines = to_python(gm, "f").split("def f", 1)[1].splitlines()
    return dedent("\n".join(lines[1:]))


def after(target: Callable[..., Any], *rules: PassRule, inputs: Any = None) -> str:
    gm = trace_pattern(target)
    before = code(gm)
    text = code(rewrite(gm, rules, inputs).module)
    assert code(gm) == before, "the graph given was changed"
    return text.replace("test_fx_rewrite.", "").strip()


def lines(text: str) -> str:
    return dedent(text).strip()


def model(x, w, b):
    y = F.linear(x, w, b)
    z = F.gelu(y)
    out = z + x
    return (out,)


def test_a_chain_becomes_one_call() -> None:
    assert code(trace_pattern(model)).strip() == lines("""
        y = torch.nn.functional.linear(x, w, b)
        z = torch.nn.functional.gelu(y)
        out = z + x
        return (out,)
    """)
    one = rule(lambda x, w, b: F.gelu(F.linear(x, w, bias=b)), lambda x, w, b: (w, x, "route", b, 1e-5))
    assert after(model, one) == lines("""
        fused = fused(w, x, 'route', b, 1e-05)
        out = fused + x
        return (out,)
    """)


def test_several_outputs_in_the_order_of_the_pattern() -> None:
    def pattern(a, w, b):
        y = F.linear(a, w, b)
        z = F.gelu(y)
        return z + a, y

    def both(x, w, b):
        y = F.linear(x, w, b)
        z = F.gelu(y)
        out = z + x
        return out, y.sum()

    assert after(both, rule(pattern, lambda a, w, b: (a, w, b))) == lines("""
        fused = fused(x, w, b)
        getitem = fused[0]
        getitem_1 = fused[1]
        sum_1 = getitem_1.sum()
        return (getitem, sum_1)
    """)


def test_a_pattern_that_returns_a_one_tuple_takes_either_convention() -> None:
    gm = trace_pattern(lambda x: x.sin() * 2)
    for function in (lambda x: x.sin(), lambda x: (x.sin(),)):
        new = rewrite(gm, [rule(lambda x: (x.sin(),), lambda x: (x,), function)]).module
        assert torch.equal(new(torch.ones(3)), torch.ones(3).sin() * 2)


def test_overlaps_go_to_the_earlier_match() -> None:
    def chain(x):
        a = x + 1
        b = a + 1
        c = b + 1
        d = c + 1
        return d + 1

    gm = trace_pattern(chain)
    done = rewrite(gm, [rule(lambda x: x + 1 + 1, lambda x: (x,))])
    assert (done.reports[0].matched, done.reports[0].replaced) == (4, 2)
    assert code(done.module).replace("test_fx_rewrite.", "").strip() == lines("""
        fused = fused(x)
        fused_1 = fused(fused)
        add = fused_1 + 1
        return add
    """)


def test_passes_apply_in_order_with_their_own_functions() -> None:
    def first(x):
        return x

    def second(x):
        return x

    rules = [
        rule(lambda x: F.gelu(x), lambda x: (x,), first, "first"),
        rule(lambda x, y: F.gelu(x) + y, lambda x, y: (x, y), second, "gone"),
        rule(lambda x, y: x + y, lambda x, y: (y, x), second, "second"),
    ]
    assert after(model, *rules) == lines("""
        y = torch.nn.functional.linear(x, w, b)
        first = first(y)
        second = second(x, first)
        return (second,)
    """)
    reports = rewrite(trace_pattern(model), rules).reports
    assert [(r.name, r.matched, r.replaced) for r in reports] == [
        ("first", 1, 1),
        ("gone", 0, 0),
        ("second", 1, 1),
    ]


def test_a_later_pass_sees_calls_of_an_earlier_one() -> None:
    def relu_of(x):
        return x

    rules = [
        rule(lambda x: F.gelu(x), lambda x: (x,), relu_of),
        rule(lambda x, y: relu_of(x) + y, lambda x, y: (x, y)),
    ]
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output(graph.call_function(torch.add, (graph.call_function(relu_of, (x,)), y)))
    rules[1] = rule(torch.fx.GraphModule({}, graph), lambda x, y: (x, y))
    assert after(model, *rules) == lines("""
        y = torch.nn.functional.linear(x, w, b)
        fused = fused(y, x)
        return (fused,)
    """)


def test_replacement_arguments_compute_on_shapes_and_literals() -> None:
    def target(x):
        return x.softmax(-1)

    def arguments(x, dim):
        return (x, x.shape[0], dim + 1, (x.size(0), dim))

    assert after(target, rule(lambda x, dim: x.softmax(dim), arguments)) == lines("""
        shape = x.shape
        getitem = shape[0]
        size = x.size(0)
        fused = fused(x, getitem, 0, (size, -1))
        return fused
    """)


def test_nodes_move_only_where_order_allows() -> None:
    def target(x, y):
        a = x.sin()
        free = a.exp()
        b = y.cos()
        return free, a * b

    def pattern(x, y):
        s = x.sin()
        return s, s * y.cos()

    assert after(target, rule(pattern, lambda x, y: (x, y))) == lines("""
        fused = fused(x, y)
        getitem = fused[0]
        getitem_1 = fused[1]
        free = getitem.exp()
        return (free, getitem_1)
    """)


def test_matches_that_would_depend_on_each_other_are_not_both_replaced() -> None:
    def target(x, y):
        a = x.sin()
        b = a.cos()
        c = y.cos()
        d = c.sin()
        return b, d

    gm = trace_pattern(target)
    done = rewrite(
        gm, [rule(lambda x, y: (x.sin(), y.cos()), lambda x, y: (x, y), lambda x, y: (x.sin(), y.cos()))]
    )
    x, y = torch.rand(3), torch.rand(3)
    for got, expected in zip(done.module(x, y), gm(x, y), strict=True):
        assert torch.equal(got, expected)


def test_effects_keep_their_place() -> None:
    def target(x, y):
        a = x.sin()
        x[0] = y
        b = x.cos()
        x.add_(1)
        c = x.cos()
        return a, b, c

    def keep(x):
        return x.cos()

    x, y = torch.rand(3), torch.tensor(2.0)
    gm = trace_pattern(target)
    done = rewrite(gm, [rule(lambda x: x.cos(), lambda x: (x,), keep)], [x, y])
    assert code(done.module).replace("test_fx_rewrite.", "").strip() == lines("""
        a = x.sin()
        x[0] = y
        keep = keep(x)
        add_ = x.add_(1)
        keep_1 = keep(x)
        return (a, keep, keep_1)
    """)
    one, two = x.clone(), x.clone()
    for got, expected in zip(done.module(one, y), gm(two, y), strict=True):
        assert torch.equal(got, expected)
    assert torch.equal(one, two)


def test_an_effect_without_a_result_is_replaced() -> None:
    def store(a, b):
        a[0] = b

    assert after(lambda x, y: store(x, y), rule(store, lambda a, b: (a, b))) == lines("""
        fused = fused(x, y)
        return None
    """)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x: (x,), "replacement_args does not take the 3 arguments of the pattern: too many"),
        (lambda x, w, b: x, "replacement_args does not return a tuple"),
        (lambda x, w, b: (x if x.sum() else w,), "replacement_args cannot be traced: TraceError"),
    ],
)
def test_bad_replacement_arguments_say_what_is_wrong(arguments: Callable[..., Any], message: str) -> None:
    one = rule(lambda x, w, b: F.linear(x, w, b), arguments)
    with pytest.raises(BadInput, match=message):
        rewrite(trace_pattern(model), [one])


def test_replacement_arguments_may_be_variadic() -> None:
    one = rule(lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda *args: args[::-1])
    assert after(model, one).startswith("fused = fused(b, w, x)")
