"""The check that stands before specialised code: same metadata, scalars, modes and alignment as before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import GlobalStateGuard, TensorGuards

ALIGNMENT = 16  # bytes; what Triton specialises pointers on
SCALARS = (int, float, bool, str, type(None))


def can_specialise(value: Any) -> bool:
    """Whether calls with such an argument can be told apart by the check."""
    if isinstance(value, torch.Tensor):
        return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
    return type(value) in SCALARS


def same_float(value: Any, expected: float) -> bool:
    """Whether a float is the very same one: the sign of zero counts, NaN equals NaN."""
    if type(value) is not float:
        return False
    if math.isnan(expected):
        return math.isnan(value)
    return value == expected and math.copysign(1.0, value) == math.copysign(1.0, expected)


class Check:
    """Writes the Python expression that is true for inputs like `inputs`, in terms of `names`.

    Tensors are compared in C++ (type, dispatch keys, dtype, device, sizes, strides, requires_grad), global
    modes too (grad, autocast, default dtype, determinism); an argument given twice must be given twice again.
    """

    def __init__(self, names: Sequence[str], inputs: Sequence[Any], prefix: str) -> None:
        self.names = tuple(names)
        self.bound: dict[str, Any] = {}
        self.prefix = prefix
        self.tensors = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        self.remainder = {i: inputs[i].data_ptr() % ALIGNMENT for i in self.tensors}
        self.but_tensors = [self._state(), *self._scalars(inputs)]  # terms on modes and scalars
        self._terms = [self.but_tensors[0], *self._tensors(inputs), *self.but_tensors[1:]]

    def _bind(self, name: str, value: Any) -> str:
        self.bound[f"{self.prefix}{name}"] = value
        return f"{self.prefix}{name}"

    def _state(self) -> str:
        return self._bind("modes", GlobalStateGuard().check) + "()"

    def _tensors(self, inputs: Sequence[Any]) -> list[str]:
        first: dict[int, int] = {}
        repeated: list[str] = []
        for i in self.tensors:
            j = first.setdefault(id(inputs[i]), i)
            if j != i:
                repeated.append(f"{self.names[i]} is {self.names[j]}")
        unique = list(first.values())
        if not unique:
            return repeated
        guards = TensorGuards(
            *(inputs[i] for i in unique), dynamic_dims_sizes=None, dynamic_dims_strides=None
        )
        check = self._bind("same", guards.check)
        return [f"{check}({', '.join(self.names[i] for i in unique)})", *repeated]

    def _scalars(self, inputs: Sequence[Any]) -> list[str]:
        terms = []
        for i, value in enumerate(inputs):
            name = self.names[i]
            if isinstance(value, torch.Tensor):
                continue
            if value is None or isinstance(value, bool):
                terms.append(f"{name} is {value}")
            elif isinstance(value, float):
                terms.append(f"{self._bind('float', same_float)}({name}, {self._bind(f'f{i}', value)})")
            else:
                terms.append(f"{name}.__class__ is {type(value).__name__} and {name} == {value!r}")
        return terms

    def expression(self, aligned: Sequence[int] | None = None) -> str:
        """The check; `aligned`: positions of the tensors whose address matters, all of them if None."""
        positions = self.tensors if aligned is None else [i for i in aligned if i in self.remainder]
        terms = list(self._terms)
        zero = [f"{self.names[i]}.data_ptr()" for i in positions if self.remainder[i] == 0]
        if zero:
            terms.append(f"not ({' | '.join(zero)}) & {ALIGNMENT - 1}")
        terms += [
            f"{self.names[i]}.data_ptr() & {ALIGNMENT - 1} == {self.remainder[i]}"
            for i in positions
            if self.remainder[i]
        ]
        return " and ".join(terms)
