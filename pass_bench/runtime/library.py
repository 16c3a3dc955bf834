"""What of Python, torch and Triton a replacement function's host code may use and still be planned.

Computation on tensors need not be listed: the recorder sees every call on them. Listed is what it does not
see and what is a function of metadata alone.
"""

from __future__ import annotations

import functools
import importlib
import math
import operator
from types import BuiltinFunctionType, ModuleType
from typing import Any

import torch
import torch.overrides

BUILTINS = frozenset(
    {abs, all, any, bool, bytes, callable, complex, dict, divmod, enumerate, filter, float, frozenset}
    | {getattr, hasattr, int, isinstance, issubclass, iter, len, list, map, max, min, next, object, pow}
    | {range, repr, reversed, round, set, slice, sorted, str, sum, tuple, type, zip}
)
PURE_MODULES: tuple[ModuleType, ...] = (math, operator)
PURE_FUNCTIONS = frozenset(
    member
    for module in PURE_MODULES
    for member in vars(module).values()
    if isinstance(member, BuiltinFunctionType)
)
# Factories take no tensor, so torch does not list them as overridable; function modes see them all the same.
FACTORIES = (
    "empty", "empty_strided", "empty_like", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like",
    "arange", "linspace", "eye", "tensor", "scalar_tensor", "as_tensor", "empty_permuted", "rand", "randn",
    "randint", "randperm", "rand_like", "randn_like", "randint_like", "tril_indices", "triu_indices",
)  # fmt: skip
METADATA_ONLY = (
    "Size", "device", "dtype", "finfo", "iinfo", "is_tensor", "promote_types", "can_cast", "broadcast_shapes",
    "is_floating_point", "is_complex", "no_grad", "Tensor", "cuda.current_device", "cuda.device_count",
    "cuda.get_device_properties", "cuda.get_device_capability", "cuda.is_available", "cuda.device",
    "cuda.get_device_name", "is_grad_enabled", "get_default_dtype", "nn.Parameter", "nn.parameter.Parameter",
    "is_storage", "typename", "sym_int", "sym_float", "sym_max", "sym_min",
)  # fmt: skip
TRITON_FUNCTIONS = (
    "cdiv", "next_power_of_2", "reinterpret", "language.cdiv", "language.constexpr", "language.dtype",
    "tools.tensor_descriptor.TensorDescriptor", "language.target_info.current_target",
)  # fmt: skip
# `triton.runtime.driver` is an object; these are the questions about the device that may be asked of it.
DRIVER_QUESTIONS = frozenset(
    {"active", "utils", "get_device_properties", "get_current_device", "get_current_target"}
)
FUNCTIONAL_MODULES = frozenset({"torch.nn.functional", "torch.functional", "torch.special"})


def allowed_builtin(value: Any) -> bool:
    """Whether a builtin, a function of math or operator, or an exception class has no effect of its own."""
    if isinstance(value, type) and issubclass(value, BaseException):
        return True
    try:
        return value in BUILTINS or value in PURE_FUNCTIONS
    except TypeError:
        return False


def allowed_torch(value: Any) -> bool:
    """Whether calling something of torch is either seen by the recorder or depends on metadata alone."""
    if type(value).__module__ == "torch._ops":  # torch.ops.aten.add, with or without its overload
        name = getattr(value, "_qualified_op_name", "") or str(getattr(value, "_name", ""))
        return name.startswith(("aten::", "prims::"))
    try:
        return value in _visible() or value in _metadata_only()
    except TypeError:
        return False


def allowed_triton(value: Any, attributes: tuple[str, ...] = ()) -> bool:
    """Whether something of Triton is a host helper, a language constant, or a question about the device."""
    kind = type(value)
    if kind.__module__.startswith("triton.language") and kind.__name__ in ("dtype", "constexpr"):
        return True
    if kind.__name__ == "DriverConfig" and kind.__module__ == "triton.runtime.driver":
        return bool(attributes) and set(attributes) <= DRIVER_QUESTIONS
    try:
        return value in _triton_functions()
    except TypeError:
        return False


@functools.cache
def _visible() -> frozenset[Any]:
    functions: set[Any] = set()
    for members in torch.overrides.get_overridable_functions().values():
        functions.update(members)
    functions.update(getattr(torch, name) for name in FACTORIES if hasattr(torch, name))
    for name in FUNCTIONAL_MODULES:
        module = importlib.import_module(name)
        functions.update(
            member
            for member in vars(module).values()
            if callable(member) and getattr(member, "__module__", "") == name
        )
    return frozenset(functions)


@functools.cache
def _metadata_only() -> frozenset[Any]:
    return frozenset(value for name in METADATA_ONLY if (value := _resolve(torch, name)) is not None)


@functools.cache
def _triton_functions() -> frozenset[Any]:
    try:
        triton = importlib.import_module("triton")
        importlib.import_module("triton.tools.tensor_descriptor")
    except ImportError:
        return frozenset()
    return frozenset(value for name in TRITON_FUNCTIONS if (value := _resolve(triton, name)) is not None)


def _resolve(module: Any, name: str) -> Any:
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value
