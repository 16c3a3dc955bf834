"""Why a pattern matches nowhere, in words a person can act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pass_bench.fx import rewrite, trace_pattern
from pass_bench.passes import PassRule


def target(x, w):
    y = F.linear(x, w)
    z = F.gelu(y)
    t = z.transpose(0, 1)
    u = t + y
    v = torch.cat([u, z], 1)
    return v, t.sum()


MISSES: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x: F.gelu(x, approximate="tanh"),
        "0 of 1 nodes matched: pattern node 'gelu' (torch.nn.functional.gelu) has approximate='tanh', "
        "graph node 'z' has approximate='none'",
    ),
    (lambda x: torch.roll(x, 1), "0 of 1 nodes matched: the graph has no node of torch.roll"),
    (
        lambda x, w: F.gelu(F.linear(x, w)),
        "1 of 2 nodes matched: graph node 'y' (pattern node 'linear') is also used by 'u' outside the match; "
        "return 'linear' from the pattern",
    ),
    (
        lambda x, y: x.transpose(1, 2) + y,
        "1 of 2 nodes matched: pattern node 'transpose' (.transpose()) has dim0=1, graph node 't' has dim0=0",
    ),
    (
        lambda x: F.gelu(x.sum()),
        "0 of 2 nodes matched: pattern node 'gelu' (torch.nn.functional.gelu) has self='sum_1' (.sum()), "
        "graph node 'z' has self='y' (torch.nn.functional.linear)",
    ),
    (
        lambda x, y: torch.cat([x, y, y], 1),
        "0 of 1 nodes matched: pattern node 'cat' (torch.cat) has tensors=[argument 'x', argument 'y', "
        "argument 'y'], graph node 'v' has tensors=['u' (operator.add), 'z' (torch.nn.functional.gelu)]",
    ),
    (
        lambda x: x + x,
        "1 of 1 nodes matched: pattern argument 'x' would stand for both 'y' and 't'",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "reason"), MISSES)
def test_the_nearest_miss_says_what_to_change(pattern: Callable[..., Any], reason: str) -> None:
    count = pattern.__code__.co_argcount
    rule = PassRule("p", pattern, lambda *args: args[:count], lambda: torch.relu)
    (report,) = rewrite(trace_pattern(target), [rule]).reports
    assert (report.matched, report.replaced) == (0, 0)
    assert report.nearest_miss == reason


def test_what_must_run_in_between_is_named() -> None:
    def between(x):
        a = x.sin()
        x.add_(1)
        return a, x.cos()

    rule = PassRule("p", lambda x: (x.sin(), x.cos()), lambda x: (x,), lambda: torch.relu)
    (report,) = rewrite(trace_pattern(between), [rule]).reports
    assert report.nearest_miss == (
        "2 of 2 nodes matched: 'add_' must run between nodes of the match "
        "(by its inputs or by what it writes)"
    )


def test_a_pattern_without_operations_says_so() -> None:
    rule = PassRule("p", lambda x: x, lambda x: (x,), lambda: torch.relu)
    (report,) = rewrite(trace_pattern(target), [rule]).reports
    assert report.nearest_miss == "0 of 0 nodes matched: the pattern has no operation to look for"
