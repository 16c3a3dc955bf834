"""Tracing: which nodes come out, how they are called, and what cannot be traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from pass_bench.errors import BadInput
from pass_bench.fx import capture, trace_pattern


def nodes(function: Callable[..., Any]) -> list[tuple[str, str]]:
    """Name and target of each call node."""
    graph = trace_pattern(function).graph
    return [
        (n.name, n.target if isinstance(n.target, str) else n.target.__name__)  # type: ignore[union-attr]
        for n in graph.nodes
        if n.op not in ("placeholder", "output")
    ]


def test_factories_without_tensors_become_nodes() -> None:
    def pattern(x):
        steps = torch.arange(0, 4)
        one = torch.tensor([1])
        level = torch.full((2,), 0.5, device=torch.device("cpu"))
        empty = torch.as_tensor((), dtype=torch.int64)
        noise = torch.rand([])
        return steps, one, level, empty, noise, x

    expected = [("steps", "arange"), ("one", "tensor"), ("level", "full"), ("empty", "as_tensor")]
    assert nodes(pattern) == [*expected, ("noise", "rand")]


def test_assignments_in_place_and_comparisons_become_nodes() -> None:
    def pattern(x, y):
        x[:, 0] = y
        x += y
        x *= 2
        same = x == y
        return x, same

    expected = [("setitem", "setitem"), ("x_1", "iadd"), ("x_2", "imul"), ("same", "eq")]
    assert nodes(pattern) == expected


def test_functions_that_do_not_dispatch_become_nodes() -> None:
    def pattern(x):
        size = torch.ops.aten.sym_size.int(x, 0)
        torch._check_is_size(size)
        total = torch.sym_sum([3, size])
        root = math.sqrt(size)
        torch._C._log_api_usage_once("python.nn_module")
        return total, root

    assert [name for _, name in nodes(pattern)] == [
        "sym_size.int",
        "_check_is_size",
        "sym_sum",
        "sqrt",
        "_log_api_usage_once",
    ]


def test_a_call_is_recorded_as_it_is_written() -> None:
    def pattern(x):
        return F.softmax(x, dim=-1), F.max_pool2d(x, 2)

    calls = [n for n in trace_pattern(pattern).graph.nodes if n.op == "call_function"]
    assert [(n.target, len(n.args), n.kwargs) for n in calls] == [
        (F.softmax, 1, {"dim": -1}),
        (F.max_pool2d, 2, {}),
    ]


def test_attributes_methods_and_unpacking() -> None:
    def pattern(x):
        left, right = x.chunk(2, dim=-1)
        rows = x.shape[0]
        return left * right.T, rows

    assert [name for _, name in nodes(pattern)] == [
        "chunk",
        "getitem",
        "getitem",
        "getattr",
        "getitem",
        "getattr",
        "mul",
    ]


def test_what_makes_no_tensor_is_computed() -> None:
    def pattern(x):
        return x.to(torch.promote_types(torch.float16, torch.float32)) + torch.finfo(torch.float16).max

    to, add = (n for n in trace_pattern(pattern).graph.nodes if n.op.startswith("call"))
    assert to.args[1] is torch.float32
    assert add.args[1] == 65504.0


def scale(x: Any) -> Any:
    torch._check_is_size(x)
    return x


def test_functions_beside_the_pattern_and_local_imports_are_seen_through() -> None:
    def pattern(x):
        import math as m

        return m.floor(scale(x))

    assert [name for _, name in nodes(pattern)] == ["_check_is_size", "floor"]


def test_names_follow_locals_also_beyond_256_of_them() -> None:
    lines = [f"    v{i} = {'x' if i == 0 else f'v{i - 1}'} + {i}" for i in range(300)]
    scope: dict[str, Any] = {}
    exec("def pattern(x):\n" + "\n".join(lines) + "\n    return v299\n", scope)
    assert [name for name, _ in nodes(scope["pattern"])] == [f"v{i}" for i in range(300)]


def test_capture_takes_names_from_the_caller_and_runs_equal() -> None:
    class Model(torch.nn.Module):
        def forward(self, x, y):
            y = None  # noqa: F841
            z = x
            return (torch.relu(z),)

    gm = capture(Model(), ["in_0", "in_1"])
    assert [n.name for n in gm.graph.nodes if n.op == "placeholder"] == ["in_0", "in_1"]
    x = torch.randn(3)
    assert torch.equal(gm(x, None)[0], x.relu())


def test_a_graph_module_pattern_is_taken_as_it_is() -> None:
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert trace_pattern(gm) is gm


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "pattern cannot be traced: TraceError: symbolically traced"),
        (lambda x: torch.no_such_function(x), "AttributeError: module 'torch' has no attribute"),
        (lambda *x: x[0], r"takes \*x"),
        (lambda x: 1 / 0, "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_what_cannot_be_traced_says_where(pattern: Callable[..., Any], message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        trace_pattern(pattern)
    assert caught.value.path is not None and caught.value.path.name == "test_fx_trace.py"
    assert caught.value.line == pattern.__code__.co_firstlineno
