"""Which operator a node calls, whatever its spelling: function, method, Python operator, aten overload.

Identity and parameters are derived from torch itself: aten schemas, Python signatures, and, for Python's
operators, what torch is seen to call when they meet tensors.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pass_bench.fx.signature import Signature, from_python, from_schema


@dataclass(frozen=True)
class Operator:
    """What a call means: `key` is equal for all spellings of one operator.

    `method` says that the first argument is the schema's `self`; `body` is the Python function behind
    the call, if torch has one, to be looked into.
    """

    key: Hashable
    label: str
    signatures: tuple[Signature, ...] = ()
    method: bool = False
    body: FunctionType | None = None


@functools.cache
def identify(op: str, target: Any) -> Operator:
    """The operator of a node: `op` is "call_function" or "call_method"."""
    if op == "call_method":
        return _method(target)
    if isinstance(target, torch._ops.OpOverload):
        return _packet(target.overloadpacket, str(target))
    if isinstance(target, torch._ops.OpOverloadPacket):
        return _packet(target, str(target))
    if _module_of(target) == "_operator":
        return _python_operator(target)
    if _module_of(target).split(".")[0] == "torch":
        if isinstance(target, FunctionType):
            return _python_function(target, label(target))
        packet = aten_packet(getattr(target, "__name__", ""))
        if packet is not None:
            return _packet(packet, label(target))
    return _opaque(target)


def aten_packet(name: str) -> torch._ops.OpOverloadPacket | None:
    """`torch.ops.aten.<name>`, or None where there is none."""
    if not name or (name.startswith("__") and name.endswith("__") and name not in _dunder_packets()):
        return None
    packet = getattr(torch.ops.aten, name, None)
    return packet if isinstance(packet, torch._ops.OpOverloadPacket) else None


@functools.cache
def _dunder_packets() -> frozenset[str]:
    return frozenset(n for n in dir(torch.Tensor) if n.startswith("__i") and hasattr(torch.ops.aten, n))


def _packet(packet: torch._ops.OpOverloadPacket, name: str, method: bool = False) -> Operator:
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    on_tensors = [overload for overload in overloads if _takes_or_makes_tensors(overload)]
    signatures = tuple(from_schema(overload) for overload in on_tensors or overloads)
    return Operator(packet._qualified_op_name, name, signatures, method)


def _takes_or_makes_tensors(overload: torch._ops.OpOverload) -> bool:
    """Tells tensor operators from TorchScript's own overloads for numbers and lists."""
    schema = overload._schema
    return any("Tensor" in str(value.type) for value in [*schema.arguments, *schema.returns])


def _python_function(function: FunctionType, name: str) -> Operator:
    signature = from_python(function)
    return Operator(function, name, (signature,) if signature else (), body=function)


def _opaque(target: Any) -> Operator:
    signature = from_python(target) if callable(target) else None
    return Operator(target, label(target), (signature,) if signature else ())


def _method(name: str) -> Operator:
    plain = name.strip("_") if name.startswith("__") and name.endswith("__") else ""
    for candidate in (plain, f"{plain}_"):
        function = getattr(operator, candidate, None) if plain else None
        if isinstance(function, BuiltinFunctionType):
            return _python_operator(function)
    attribute = getattr(torch.Tensor, name, None)
    if isinstance(attribute, FunctionType):
        return _python_function(attribute, f".{name}()")
    packet = aten_packet(name) if attribute is not None else None
    if packet is not None:
        return _packet(packet, f".{name}()", method=True)
    return Operator(("method", name), f".{name}()")


def _python_operator(function: Callable[..., Any]) -> Operator:
    name = probe_operator(function)
    packet = aten_packet(name) if name else None
    if packet is None:
        return _opaque(function)
    return _packet(packet, label(function), method=True)


class _FunctionProbe(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))


class _DispatchProbe(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@functools.cache
def probe_operator(function: Callable[..., Any]) -> str | None:
    """The name of the one torch operator that a Python operator calls when its operands are tensors."""
    for dtype in (torch.float32, torch.int64, torch.bool):
        for count in (2, 1):
            operands = [torch.empty(2, 2, dtype=dtype, device="meta") for _ in range(count)]
            try:
                with _FunctionProbe() as outer:
                    function(*operands)
                if len(outer.names) == 1 and not outer.names[0].startswith("__"):
                    return outer.names[0]
                with _DispatchProbe() as inner:
                    function(*operands)
            except (TypeError, RuntimeError, IndexError, NotImplementedError):
                continue
            return inner.names[0] if len(inner.names) == 1 and function is not operator.getitem else None
    return None


def _module_of(target: Any) -> str:
    module = getattr(target, "__module__", None)
    if module is None and isinstance(target, BuiltinFunctionType):
        owner = target.__self__
        module = getattr(owner, "__name__", "")
        if str(module).startswith("_VariableFunctions"):
            module = "torch"
    return str(module or "")


def label(target: Any) -> str:
    """A callable's name as a person would write it."""
    if isinstance(target, str):
        return f".{target}()"
    name = getattr(target, "__name__", None) or str(target)
    module = _module_of(target)
    if module == "_operator":
        return f"operator.{name}"
    if module in ("builtins", ""):
        return str(name)
    if getattr(torch, name, None) is target:
        return f"torch.{name}"
    if getattr(torch.nn.functional, name, None) is target:
        return f"torch.nn.functional.{name}"
    return f"{module}.{name}"
