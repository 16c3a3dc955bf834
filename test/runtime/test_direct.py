"""Straight code must be the same function as the graph, for every kind of input it meets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from pass_bench.runtime import build_direct


@pytest.fixture(autouse=True)
def no_grad() -> Any:
    with torch.no_grad():
        yield


def copied(inputs: list[Any]) -> list[Any]:
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def assert_same(actual: Any, expected: Any) -> None:
    assert type(actual) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right)
    elif isinstance(expected, torch.Tensor):
        assert actual.dtype is expected.dtype
        assert actual.shape == expected.shape
        assert actual.stride() == expected.stride()
        assert torch.equal(actual, expected)
    else:
        assert actual == expected


def agree(gm: fx.GraphModule, direct: Callable[..., Any], inputs: list[Any]) -> Any:
    """Both on inputs of their own: same outputs, same changes of the inputs."""
    mine, theirs = copied(inputs), copied(inputs)
    result = direct(*mine)
    assert_same(result, gm(*theirs))
    assert_same(mine, theirs)
    return result


def attention(x: Any, w: Any, b: Any, heads: Any) -> Any:
    y = F.dropout(F.linear(x, w, b), 0.1, False)
    q = y.view(y.size(0), -1, 4, heads).transpose(1, 2)
    left, right = q.chunk(2, -1)
    z = left * right + 1.0
    z.sin()
    x.narrow(0, 0, 1).fill_(1)
    return z.reshape(y.shape[0], -1)[:, :4], z.permute(0, 2, 1, 3), q.shape[1]


def attention_inputs(batch: int, heads: int = 8) -> list[Any]:
    return [torch.randn(batch, 3, 32), torch.randn(32, 32), torch.randn(32), heads]


def test_code_before_and_after() -> None:
    gm = fx.symbolic_trace(attention)
    direct = build_direct(gm, [])
    agree(gm, direct, attention_inputs(2))
    check, *body = direct.report().source.splitlines()[1:]
    assert check == (
        "    if not (_0_check_modes() and _0_check_same(a0, a1, a2) and a3.__class__ is int and a3 == 8): "
        "return _miss((a0, a1, a2, a3))"
    )
    assert "\n".join(body).replace("_1__reinterpret_tensor_1", "view_of") == (
        """\
    linear = _1_linear_0(a0, a1, a2)
    alias_2 = view_of(linear, (2, 4, 3, 4), (96, 8, 32, 1), 0)
    alias_3 = view_of(linear, (2, 4, 3, 4), (96, 8, 32, 1), 4)
    linear = None
    mul = alias_2 * alias_3
    alias_2 = alias_3 = None
    add = mul + (1.0)
    mul = None
    alias_4 = view_of(a0, (1, 3, 32), (96, 32, 1), 0)
    alias_4.fill_(1)
    alias_4 = None
    reshape = add.reshape(2, -1)
    alias_5 = view_of(reshape, (2, 4), (48, 1), 0)
    reshape = None
    alias_6 = view_of(add, (2, 3, 4, 4), (48, 16, 4, 1), 0)
    add = None
    return (alias_5, alias_6, 4)"""
    )


def test_other_shapes_scalars_and_strides_respecialise() -> None:
    gm = fx.symbolic_trace(attention)
    direct = build_direct(gm, [])
    for batch, heads in [(2, 8), (2, 8), (3, 8), (2, 4), (2, 8), (5, 8), (5, 8), (2, 4)]:
        agree(gm, direct, attention_inputs(batch, heads))
    transposed = [torch.randn(3, 2, 32).transpose(0, 1), *attention_inputs(2)[1:]]
    agree(gm, direct, transposed)
    double = [x.double() if isinstance(x, torch.Tensor) else x for x in attention_inputs(2)]
    assert agree(gm, direct, double)[0].dtype is torch.float64
    assert direct.report().variants == 6


def test_variants_are_bounded() -> None:
    gm = fx.symbolic_trace(attention)
    direct = build_direct(gm, [])
    for batch in range(1, 40):
        agree(gm, direct, attention_inputs(batch))
    assert direct.report().variants == 8


def test_an_argument_given_twice() -> None:
    gm = fx.symbolic_trace(lambda x, y: (x.add_(1), y * 2))
    direct = build_direct(gm, [])
    for _ in range(3):
        x = torch.ones(3)
        assert torch.equal(direct(x, x)[1], torch.full((3,), 4.0))
        assert torch.equal(direct(torch.ones(3), torch.ones(3))[1], torch.full((3,), 2.0))


def test_data_dependent_shapes_are_not_frozen() -> None:
    gm = fx.symbolic_trace(lambda x: (x.nonzero().view(-1), x[x > 0].size(0), x.sum().item()))
    direct = build_direct(gm, [])
    for ones in (1, 4, 2, 0):
        x = torch.zeros(5)
        x[:ones] = 1
        agree(gm, direct, [x])


def test_random_numbers_follow_the_seed() -> None:
    gm = fx.symbolic_trace(lambda x: (F.dropout(x, 0.5, True), torch.rand_like(x)))
    direct = build_direct(gm, [])
    for seed in (1, 2, 3):
        x = torch.ones(64)
        torch.manual_seed(seed)
        actual = direct(x)
        torch.manual_seed(seed)
        assert_same(actual, gm(x))


def test_modes_are_part_of_the_check() -> None:
    gm = fx.symbolic_trace(lambda x: torch.zeros(2).sum() + x.sum())
    direct = build_direct(gm, [])
    x = torch.ones(3, dtype=torch.float64)
    agree(gm, direct, [x])
    torch.set_default_dtype(torch.float64)
    try:
        agree(gm, direct, [x])
    finally:
        torch.set_default_dtype(torch.float32)
    weight = torch.nn.Parameter(torch.ones(3))
    square = fx.symbolic_trace(lambda x: (x.view(3, 1) * 2).sum())
    direct = build_direct(square, [])
    assert not direct(weight).requires_grad
    with torch.enable_grad():
        direct(weight).backward()
    assert weight.grad is not None
    assert not direct(weight).requires_grad


def test_metadata_changed_in_place() -> None:
    def change(x: Any) -> Any:
        y = x + 1
        y.unsqueeze_(0)
        z = y.view(-1)
        y.transpose_(1, 2)
        return y.reshape(-1), z, y.shape

    gm = fx.symbolic_trace(change)
    direct = build_direct(gm, [])
    for _ in range(3):
        agree(gm, direct, [torch.randn(3, 4)])


def test_wrong_number_of_arguments() -> None:
    direct = build_direct(fx.symbolic_trace(lambda x: x + 1), [])
    with pytest.raises(TypeError):
        direct()
    direct(torch.ones(1))
    with pytest.raises(TypeError):
        direct(torch.ones(1), torch.ones(1))


def test_sparse_and_subclass_inputs_run_unspecialised() -> None:
    gm = fx.symbolic_trace(lambda x: x + x)
    direct = build_direct(gm, [])
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(direct(sparse).to_dense(), 2 * torch.eye(3))
    assert direct.report().variants == 0


def test_code_that_holds_for_all_inputs_has_no_check() -> None:
    gm = fx.symbolic_trace(lambda x, y: torch.relu(x * y) + 1)
    direct = build_direct(gm, [])
    for shape in [(2, 3), (4,), (2, 3)]:
        agree(gm, direct, [torch.randn(shape), torch.randn(shape)])
    assert direct.report().variants == 1
    assert direct.report().source == (
        "def direct(a0, a1):\n"
        "    mul = a0 * a1\n"
        "    relu = _1_relu_0(mul)\n"
        "    mul = None\n"
        "    add = relu + (1)\n"
        "    relu = None\n"
        "    return add\n"
    )


def test_metadata_changed_inside_an_operator_is_its_own_business() -> None:
    gm = fx.symbolic_trace(lambda x: F.adaptive_avg_pool1d(x, 1).flatten(1).view(2, 2, 2))
    direct = build_direct(gm, [])
    for _ in range(2):
        agree(gm, direct, [torch.randn(2, 4, 6)])
    assert direct.report().source.count("_reinterpret_tensor") == 1
