"""Spellings of one operator match each other; calls that differ in meaning do not."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pass_bench.fx import find_matches, trace_pattern
from pass_bench.fx.canonical import forms

SAME: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("operator and function", lambda x, y: x + y, lambda x, y: torch.add(x, y)),
    ("operator and method", lambda x, y: x / y, lambda x, y: x.div(y)),
    ("true_divide of operator", lambda x, y: operator.truediv(x, y), lambda x, y: torch.div(x, y)),
    ("keyword self is input", lambda x, y: torch.mul(input=x, other=y), lambda x, y: x * y),
    ("default spelled out", lambda x, y: torch.add(x, y, alpha=1), lambda x, y: x + y),
    ("matmul", lambda x, y: x @ y, lambda x, y: torch.matmul(x, y)),
    ("dunder eq", lambda x, y: x.__eq__(y), lambda x, y: torch.eq(x, y)),
    ("invert", lambda x, y: ~x, lambda x, y: torch.bitwise_not(x)),
    ("or", lambda x, y: x | y, lambda x, y: torch.bitwise_or(x, y)),
    ("floordiv", lambda x, y: x // y, lambda x, y: torch.floor_divide(x, y)),
    ("power", lambda x, y: x**2, lambda x, y: x.pow(2)),
    ("in place", lambda x, y: operator.iadd(x, y), lambda x, y: x.add_(y)),
    ("varargs of ints", lambda x, y: x.permute(1, 0), lambda x, y: torch.permute(x, (1, 0))),
    ("varargs of nodes", lambda x, y: x.view(y, -1), lambda x, y: x.view((y, -1))),
    ("varargs of one int", lambda x, y: x.view(-1), lambda x, y: x.view([-1])),
    ("reshape", lambda x, y: torch.reshape(x, (2, 8)), lambda x, y: x.reshape(2, 8)),
    ("repeat", lambda x, y: x.repeat(2, 1), lambda x, y: x.repeat((2, 1))),
    ("torch.Size", lambda x, y: x.expand(torch.Size([4, 4])), lambda x, y: x.expand(4, 4)),
    ("factory", lambda x, y: x + torch.ones(2, 3), lambda x, y: x + torch.ones((2, 3), requires_grad=False)),
    ("numpy names", lambda x, y: x.sum(axis=-1, keepdims=True), lambda x, y: x.sum(-1, keepdim=True)),
    ("int for int[1]", lambda x, y: x.mean(1), lambda x, y: x.mean(dim=(1,))),
    (
        "int for int[2]",
        lambda x, y: torch.conv2d(x, y, None, 1, 1),
        lambda x, y: F.conv2d(x, y, padding=(1, 1)),
    ),
    ("int for float", lambda x, y: F.dropout(x, 0, False), lambda x, y: F.dropout(x, 0.0, training=False)),
    ("softmax", lambda x, y: F.softmax(x, dim=-1), lambda x, y: x.softmax(-1)),
    (
        "softmax with dtype",
        lambda x, y: F.softmax(x, -1, dtype=torch.float32),
        lambda x, y: torch.softmax(x, -1, torch.float32),
    ),
    ("relu in place", lambda x, y: F.relu(x, inplace=True), lambda x, y: x.relu_()),
    ("relu", lambda x, y: F.relu(x), lambda x, y: torch.relu(x)),
    ("inlined tanh", lambda x, y: F.tanh(x), lambda x, y: x.tanh()),
    ("gelu builtin", lambda x, y: F.gelu(x), lambda x, y: torch._C._nn.gelu(x, approximate="none")),
    ("linear builtin", lambda x, y: F.linear(x, y), lambda x, y: torch._C._nn.linear(x, y, None)),
    ("layer_norm", lambda x, y: F.layer_norm(x, (4,), y), lambda x, y: torch.layer_norm(x, [4], weight=y)),
    ("silu", lambda x, y: F.silu(x), lambda x, y: torch._C._nn.silu(x)),
    (
        "pad builtin",
        lambda x, y: F.pad(x, (0, 1), "constant", None),
        lambda x, y: torch._C._nn.pad(x, (0, 1)),
    ),
    (
        "max_pool2d",
        lambda x, y: F.max_pool2d(x, 2),
        lambda x, y: F.max_pool2d(x, kernel_size=(2, 2), stride=None),
    ),
    ("embedding", lambda x, y: F.embedding(x, y), lambda x, y: F.embedding(x, weight=y, padding_idx=None)),
    ("einsum", lambda x, y: torch.einsum("ij,kj->ik", x, y), lambda x, y: torch.einsum("ij,kj->ik", [x, y])),
    (
        "meshgrid",
        lambda x, y: torch.meshgrid(x, y, indexing="ij"),
        lambda x, y: torch.meshgrid([x, y], indexing="ij"),
    ),
    ("split", lambda x, y: torch.split(x, 2, dim=1), lambda x, y: x.split(2, 1)),
    (
        "special",
        lambda x, y: torch.special.logit(x, eps=1e-5),
        lambda x, y: torch._C._special.special_logit(x, 1e-5),
    ),
    ("overload", lambda x, y: torch.ops.aten.add.Tensor(x, y), lambda x, y: x + y),
    ("device as string", lambda x, y: x.to("cpu"), lambda x, y: x.to(device=torch.device("cpu"))),
    (
        "any device that holds data",
        lambda x, y: x.to(torch.device("cuda", 0)),
        lambda x, y: x.to("cpu"),
    ),
    ("dtype keyword", lambda x, y: x.to(torch.float16), lambda x, y: x.to(dtype=torch.float16)),
    ("list and tuple", lambda x, y: torch.cat([x, y], -1), lambda x, y: torch.cat((x, y), dim=-1)),
    ("where as method", lambda x, y: y.where(x, 0.0), lambda x, y: torch.where(x, y, 0.0)),
    ("slices", lambda x, y: x[:, 1:], lambda x, y: x[(slice(None, None, None), slice(1, None, None))]),
    ("nan", lambda x, y: x.masked_fill(y, float("nan")), lambda x, y: torch.masked_fill(x, y, float("nan"))),
    ("local import", lambda x, y: __import__("torch").tanh(x), lambda x, y: x.tanh()),
]

DIFFERENT: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("meta device", lambda x, y: x.to("meta"), lambda x, y: x.to("cpu")),
    ("in place or not", lambda x, y: x + y, lambda x, y: operator.iadd(x, y)),
    ("in place flag", lambda x, y: F.relu(x), lambda x, y: F.relu(x, inplace=True)),
    ("alpha", lambda x, y: x + y, lambda x, y: torch.add(x, y, alpha=2)),
    ("literal", lambda x, y: x * 2, lambda x, y: x * 3),
    ("int and float", lambda x, y: x * 2, lambda x, y: x * 2.0),
    ("bool and int", lambda x, y: x * True, lambda x, y: x * 1),
    ("sign of zero", lambda x, y: x + 0.0, lambda x, y: x + -0.0),
    ("operands the other way round", lambda x, y: 2 - x, lambda x, y: x - 2),
    ("gelu kinds", lambda x, y: F.gelu(x), lambda x, y: F.gelu(x, approximate="tanh")),
    ("dims", lambda x, y: x.transpose(0, 1), lambda x, y: x.transpose(1, 0)),
    ("eps", lambda x, y: F.layer_norm(x, (4,), y), lambda x, y: F.layer_norm(x, (4,), y, None, 1e-6)),
    ("dtype", lambda x, y: x.to(torch.float16), lambda x, y: x.to(torch.float32)),
    ("max of dim or of two", lambda x, y: x.max(1), lambda x, y: x.max()),
    ("method of another name", lambda x, y: x.float(), lambda x, y: x.half()),
    ("slice bounds", lambda x, y: x[1:], lambda x, y: x[:1]),
    ("length of a list", lambda x, y: torch.cat([x, y]), lambda x, y: torch.cat([x, y, y])),
    ("where", lambda x, y: torch.where(x, y, 0.0), lambda x, y: torch.where(x, 0.0, y)),
]


def matches(pattern: Callable[..., Any], target: Callable[..., Any]) -> int:
    return len(find_matches(trace_pattern(pattern), trace_pattern(target)))


@pytest.mark.parametrize(("one", "two"), [p[1:] for p in SAME], ids=[p[0] for p in SAME])
def test_spellings_of_one_operator_match_both_ways(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    assert matches(one, two) == 1
    assert matches(two, one) == 1


@pytest.mark.parametrize(("one", "two"), [p[1:] for p in DIFFERENT], ids=[p[0] for p in DIFFERENT])
def test_calls_that_differ_do_not_match(one: Callable[..., Any], two: Callable[..., Any]) -> None:
    assert matches(one, one) == 1
    assert matches(one, two) == 0
    assert matches(two, one) == 0


def test_a_function_that_only_offers_itself_reads_as_itself_once() -> None:
    gm = trace_pattern(lambda x: torch.sym_sum([1, x]))
    (node,) = (n for n in gm.graph.nodes if n.op == "call_function")
    assert [form.key for form in forms(node)] == [torch.sym_sum]
