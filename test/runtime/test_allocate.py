"""Tensors allocated in their final shape must be what the function as written returns."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from runtime_triples import identical

from pass_bench.kernels import cpp_kernel
from pass_bench.runtime.allocate import allocated_as_used
from pass_bench.runtime.emit import Source, compile_function
from pass_bench.runtime.record import record
from pass_bench.runtime.write_plan import PlanWriter

double = cpp_kernel(
    "void twice(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }",
    "twice(const float* x, float* y, int64_t n)",
)
rows = cpp_kernel(
    """
    void fill_rows(pn::view<float, 2> y) {
      for (int64_t i = 0; i < y.sizes[0]; ++i) for (int64_t j = 0; j < y.sizes[1]; ++j)
        y.data[i * y.strides[0] + j * y.strides[1]] = i;
    }
    """,
    "fill_rows(view<float, 2> y)",
)


def written(function: Callable[..., Any], x: torch.Tensor) -> tuple[Callable[..., Any], str]:
    """The plan of a function as code, and its lines."""
    _, plan, refused = record(function, (x,))
    assert plan is not None, refused
    source = Source(prefix="_")
    writer = PlanWriter(source, plan, [source.local("x")], {})
    result = writer.write()
    source.lines.append(f"return {source.literal(result, writer.name_of)}")
    code = compile_function("planned", ["x"], source.lines, "test-allocate")
    return FunctionType(code, dict(source.bound), "planned"), "\n".join(source.lines)


def flattened(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel())
    double(x, out, x.numel())
    return out.view(x.shape)


def chain(x: torch.Tensor) -> Any:
    out = torch.empty(1, x.numel())
    double(x, out[0], x.numel())
    return out.squeeze(0).view(x.shape[1], -1).reshape(1, *x.shape).unsqueeze(-1)


def used_by_an_operator(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel())
    double(x, out, x.numel())
    return torch.relu(out.view(x.shape))


def both(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel())
    double(x, out, x.numel())
    return out, out.view(x.shape)


def a_part(x: torch.Tensor) -> Any:
    out = torch.zeros(1).new_empty(2 * x.numel())
    double(x, out, x.numel())
    return out[: x.numel()].view(x.shape)


def shifted(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel() + 1)
    double(x, out[1:], x.numel())
    return out[1:].view(x.shape)


def another_dtype(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel())
    double(x, out, x.numel())
    return out.view(torch.int32).view(x.shape)


def transposed(x: torch.Tensor) -> Any:
    out = torch.empty(x.shape)
    double(x, out, x.numel())
    return out.t()


def changed_in_place(x: torch.Tensor) -> Any:
    out = torch.empty(x.numel())
    double(x, out, x.numel())
    out.add_(1)
    return out.view(x.shape)


def seen_with_its_shape(x: torch.Tensor) -> Any:
    out = torch.empty(x.shape[1], x.shape[0])
    rows(out)
    return out.view(x.shape)


def empty(x: torch.Tensor) -> Any:
    return torch.empty(0, 3).view(3, 0), x.view(-1)


@pytest.mark.parametrize("function", [flattened, chain, used_by_an_operator])
def test_no_view_is_left(function: Callable[..., Any]) -> None:
    call, text = written(function, torch.randn(3, 4))
    assert "view" not in text
    assert "alias" not in text
    x = torch.randn(3, 4)
    assert identical(call(x), function(x))


@pytest.mark.parametrize(
    "function",
    [both, a_part, shifted, another_dtype, transposed, changed_in_place, seen_with_its_shape, empty],
)
def test_what_is_not_the_same_memory_stays_a_view(function: Callable[..., Any]) -> None:
    call, text = written(function, torch.randn(3, 4))
    assert "alias" in text or "view" in text
    for _ in range(2):
        x = torch.randn(3, 4)
        actual, expected = call(x), function(x)
        assert identical(actual, expected)
    if function is both:
        assert actual[0].data_ptr() == actual[1].data_ptr()


def test_plans_without_such_views_stay_as_they_are() -> None:
    _, plan, _ = record(both, (torch.randn(3, 4),))
    assert plan is not None
    assert allocated_as_used(plan) is plan
