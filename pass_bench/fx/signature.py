"""Ways to bind a call's arguments to parameter names, derived from operator schemas and Python signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import fx

MISSING = object()  # the parameter has no default

# torch's argument parser takes these numpy spellings for any operator (python_arg_parser.cpp,
# numpy_compatibility_arg_names), and calls the schema's `self` `input` in function form.
_PARSER_ALIASES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "self",
    "a": "self",
    "x1": "self",
    "x2": "other",
}
_FUNCTION_SELF = "input"
# Factories take these in Python beside what the schema lists; at these values they mean nothing.
_PYTHON_ONLY = {"requires_grad": False, "out": None}


@dataclass(frozen=True)
class Parameter:
    """One parameter; `type` and `size` are the schema's (int[2]: a list of size 2), None in Python."""

    name: str
    default: Any = MISSING
    keyword_only: bool = False
    type: Any = None
    size: int | None = None


@dataclass(frozen=True)
class Signature:
    """One overload: `name` tells it from its siblings; `varargs` collects positional rest into a tuple."""

    name: str
    parameters: tuple[Parameter, ...]
    varargs: str | None = None
    from_schema: bool = False

    @property
    def defaults(self) -> dict[str, Any]:
        """The defaults of all parameters that have one."""
        return {p.name: p.default for p in self.parameters if p.default is not MISSING}


def from_schema(overload: torch._ops.OpOverload) -> Signature:
    """The signature of one aten overload."""
    parameters = tuple(
        Parameter(
            a.name,
            a.default_value if a.has_default_value() else MISSING,
            a.kwarg_only,
            a.real_type,
            a.N,  # type: ignore[attr-defined]
        )
        for a in overload._schema.arguments
    )
    return Signature(overload._overloadname, parameters, from_schema=True)


def from_python(function: Callable[..., Any]) -> Signature | None:
    """The signature of a Python function, or None where it has none that names its parameters.

    A dispatcher over functions with the same parameters (`F.max_pool2d`) takes theirs.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if isinstance(function, FunctionType) and str(signature) == "(*args, **kwargs)":
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        inner = [inspect.signature(f) for f in cells if isinstance(f, FunctionType)]
        if not inner or any(list(s.parameters) != list(inner[0].parameters) for s in inner):
            return None
        signature = inner[0]
    parameters, varargs = [], None
    for p in signature.parameters.values():
        if p.kind is p.VAR_KEYWORD:
            return None
        if p.kind is p.VAR_POSITIONAL:
            varargs = p.name
            continue
        default = MISSING if p.default is p.empty else p.default
        parameters.append(Parameter(p.name, default, p.kind is p.KEYWORD_ONLY))
    return Signature("", tuple(parameters), varargs)


def bind(
    signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any], method: bool, strict: bool
) -> dict[str, Any] | None:
    """Parameter name -> normalised value, or None where the call does not fit the signature.

    As a method the first argument goes to `self`, wherever the schema has it. Not `strict`: required
    parameters may be missing and literal types are not checked.
    """
    positional = [p for p in signature.parameters if not p.keyword_only]
    names = {p.name: p for p in signature.parameters}
    bound: dict[str, Any] = {}
    rest = list(args)
    if method and "self" in names:
        bound["self"] = rest.pop(0)
        positional = [p for p in positional if p.name != "self"]
    rest = _gather_varargs(signature, positional, rest)
    if len(rest) > len(positional):
        if signature.varargs is None:
            return None
        bound[signature.varargs] = tuple(rest[len(positional) :])
    for parameter, value in zip(positional, rest, strict=False):
        bound[parameter.name] = value
    for key, value in kwargs.items():
        name = _parameter_name(key, names, signature.from_schema)
        if name is None:
            if signature.from_schema and key in _PYTHON_ONLY and value == _PYTHON_ONLY[key]:
                continue
            return None
        if name in bound:
            return None
        bound[name] = value
    if strict and any(p.name not in bound and p.default is MISSING for p in signature.parameters):
        return None
    if signature.from_schema:
        for name, value in bound.items():
            parameter = names[name]
            fits, bound[name] = conform(parameter.type, parameter.size, value)
            if strict and not fits:
                return None
    return bound


def _parameter_name(key: str, names: Mapping[str, Parameter], schema: bool) -> str | None:
    if key in names:
        return key
    if not schema:
        return None
    if key == _FUNCTION_SELF and "self" in names:
        return "self"
    alias = _PARSER_ALIASES.get(key)
    return alias if alias in names else None


def _gather_varargs(signature: Signature, positional: list[Parameter], rest: list[Any]) -> list[Any]:
    """`x.view(2, 3)` as `x.view([2, 3])`: the parser's rule where a list of ints is the only positional."""
    if not signature.from_schema or not rest:
        return rest
    others = [p for p in positional if p.name != "self"]
    offset = len(positional) - len(others)
    if len(others) != 1 or (offset > 0 and positional[0].name != "self"):
        return rest
    items = rest[offset:]
    kind = others[0].type
    is_list = kind.kind() == "ListType" and kind.getElementType().kind() in ("IntType", "SymIntType")
    if not is_list or not items or not all(_is_int(item) or isinstance(item, fx.Node) for item in items):
        return rest
    if len(items) == 1 and isinstance(items[0], fx.Node):
        return rest  # a node alone may be the list itself
    return rest[:offset] + [list(items)]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def conform(kind: Any, size: int | None, value: Any) -> tuple[bool, Any]:
    """Whether a value fits a schema type, and the value as the schema has it (`int[2]`: 1 is [1, 1])."""
    if isinstance(value, fx.Node):
        return True, value
    name = kind.kind()
    if name == "OptionalType":
        return (True, None) if value is None else conform(kind.getElementType(), size, value)
    if name == "ListType":
        element = kind.getElementType()
        if isinstance(value, tuple | list):
            pairs = [conform(element, None, item) for item in value]
            return all(fits for fits, _ in pairs), [item for _, item in pairs]
        fits, item = conform(element, None, value)
        return fits and size is not None, [item] * size if size is not None and fits else value
    if name == "FloatType" and (_is_int(value) or isinstance(value, float)):
        return True, float(value)
    if name == "DeviceObjType" and isinstance(value, str):
        return True, torch.device(value)
    return _fits(name, value), value


def _fits(name: str, value: Any) -> bool:
    wanted: dict[str, Any] = {
        "TensorType": torch.Tensor,
        "NumberType": (bool, int, float, complex),
        "BoolType": bool,
        "StringType": str,
        "ScalarTypeType": torch.dtype,
        "LayoutType": torch.layout,
        "MemoryFormatType": torch.memory_format,
        "DeviceObjType": torch.device,
    }
    if name in ("IntType", "SymIntType"):
        return _is_int(value)
    return isinstance(value, wanted[name]) if name in wanted else True
