"""Kernel signatures: `"add(const T* x, T* out, int64_t n)"` -> typed parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pass_bench.kernels.errors import KernelSignatureError

Kind = Literal["pointer", "view", "list", "int64", "int32", "float32", "float64", "bool"]

# C++ spelling -> dtype. `T` stands for each of the kernel's `dtypes` in turn.
ELEMENT_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bf16": "bfloat16",
    "int64_t": "int64",
    "int32_t": "int32",
    "int": "int32",
    "int16_t": "int16",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "bool": "bool",
}
SCALAR_KINDS: dict[str, Kind] = {
    "int64_t": "int64",
    "int32_t": "int32",
    "int": "int32",
    "float": "float32",
    "double": "float64",
    "bool": "bool",
}
DTYPES = ("float32", "float16", "bfloat16", "float64")

_WHOLE = re.compile(r"\s*(?:void\s+)?([A-Za-z_]\w*)\s*\((.*)\)\s*;?\s*", re.S)
_TENSOR = re.compile(r"(const\s+)?(\w+)\s*\*\s*(?:__restrict__\s+|__restrict\s+)?([A-Za-z_]\w*)")
_VIEW = re.compile(r"view\s*<\s*(const\s+)?(\w+)\s*,\s*(\d+)\s*>\s+([A-Za-z_]\w*)")
_LIST = re.compile(r"list\s*<\s*(const\s+)?(\w+)\s*>\s+([A-Za-z_]\w*)")
_SCALAR = re.compile(r"(?:const\s+)?(\w+)\s+([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Parameter:
    """One parameter: a tensor (pointer, view of `rank` dimensions, list) of `element`, or a scalar."""

    name: str
    kind: Kind
    element: str = ""  # C++ spelling: "float", "T"
    const: bool = False
    rank: int = 0

    @property
    def is_tensor(self) -> bool:
        return self.kind in ("pointer", "view", "list")


@dataclass(frozen=True)
class Signature:
    """A kernel's name and parameters; `generic` kernels are templates over one type `T`."""

    name: str
    parameters: tuple[Parameter, ...]

    @property
    def generic(self) -> bool:
        return any(parameter.element == "T" for parameter in self.parameters)


def parse_signature(text: str) -> Signature:
    """Read a signature; raises KernelSignatureError naming the parameter that cannot be read."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise KernelSignatureError(
            f"kernel signature {text!r} cannot be read", expected="name(const T* x, T* out, int64_t n)"
        )
    name, inside = whole.groups()
    parts = [part.strip() for part in _split(inside.replace("pn::", "").replace("std::", ""))]
    parameters = tuple(_parameter(part, name) for part in parts if part)
    names = [parameter.name for parameter in parameters]
    for repeated in {n for n in names if names.count(n) > 1}:
        raise KernelSignatureError(f"kernel {name!r} has two parameters called {repeated!r}")
    return Signature(name, parameters)


def check_dtypes(signature: Signature, dtypes: tuple[str, ...]) -> None:
    """Raise KernelSignatureError unless `dtypes` is given exactly where the signature uses `T`."""
    if signature.generic and not dtypes:
        raise KernelSignatureError(
            f"kernel {signature.name!r} uses T but no dtypes are given", expected=f"some of {list(DTYPES)}"
        )
    if dtypes and not signature.generic:
        raise KernelSignatureError(f"kernel {signature.name!r} has dtypes but no tensor of type T")
    for dtype in dtypes:
        if dtype not in DTYPES:
            raise KernelSignatureError(
                f"kernel {signature.name!r} has unknown dtype {dtype!r}", expected=f"some of {list(DTYPES)}"
            )
    if signature.generic and next(p for p in signature.parameters if p.element == "T").kind == "list":
        raise KernelSignatureError(
            f"kernel {signature.name!r} must take a single T tensor before a list of them, to know its dtype"
        )


def _split(text: str) -> list[str]:
    """Split at commas outside angle brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _parameter(text: str, kernel: str) -> Parameter:
    if found := _VIEW.fullmatch(text):
        const, element, rank, name = found.groups()
        parameter = Parameter(name, "view", element, bool(const), int(rank))
    elif found := _LIST.fullmatch(text):
        const, element, name = found.groups()
        parameter = Parameter(name, "list", element, bool(const))
    elif found := _TENSOR.fullmatch(text):
        const, element, name = found.groups()
        parameter = Parameter(name, "pointer", element, bool(const))
    elif (found := _SCALAR.fullmatch(text)) and found.group(1) in SCALAR_KINDS:
        return Parameter(found.group(2), SCALAR_KINDS[found.group(1)])
    else:
        raise KernelSignatureError(
            f"kernel {kernel!r}: parameter {text!r} cannot be read",
            expected="'const T* x', 'view<const T, 4> x', 'list<const T> xs', 'int64_t n' or 'double eps'",
        )
    if parameter.element != "T" and parameter.element not in ELEMENT_DTYPES:
        raise KernelSignatureError(
            f"kernel {kernel!r}: parameter {text!r} has unknown element type {parameter.element!r}",
            expected=f"T or one of {', '.join(ELEMENT_DTYPES)}",
        )
    return parameter
