"""What torch, Triton, the clocks and the harness are made of, before and after a pass ran."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from pass_bench.results.records import Violation

MODULES = (
    *("builtins", "time", "math", "operator", "functools", "gc", "sys", "os", "random", "threading"),
    *("torch", "torch.nn.functional", "torch._C", "torch._C._nn", "torch.cuda", "torch.autograd"),
    *("torch.overrides", "torch.utils._python_dispatch", "torch.fx.graph_module", "torch.backends.cudnn"),
    *("triton", "triton.runtime.jit", "triton.runtime.driver", "triton.testing"),
)
CLASSES = (
    *("torch.Tensor", "torch.nn.Module", "torch.fx.Graph", "torch.fx.Node", "torch.fx.GraphModule"),
    *("torch.fx.Interpreter", "torch.fx.Tracer", "torch.cuda.Event", "torch.cuda.Stream", "torch.Generator"),
    *("torch.autograd.Function", "triton.runtime.jit.JITFunction", "triton.runtime.autotuner.Autotuner"),
    *("triton.runtime.interpreter.GridExecutor", "triton.runtime.interpreter.InterpretedFunction"),
)
OWN = "pass_bench"
Print = tuple[Any, ...]  # the object and the parts of it that decide what it does


class Snapshot:
    """The functions and classes of the watched modules, and what their code was."""

    def __init__(self) -> None:
        self._prints: dict[str, Print] = dict(_everything())

    def changes(self) -> tuple[Violation, ...]:
        """What was replaced since; names that are new or that a lazy import filled in do not count."""
        now = dict(_everything(set(self._prints)))
        found = []
        for name, before in self._prints.items():
            after = now.get(name)
            if after is None:
                found.append(Violation(rule="patched", why=f"{name} was removed"))
            elif not _same(before, after) and not _wrapped_by_torch(after):
                found.append(Violation(rule="patched", why=f"{name} was replaced"))
        return tuple(found[:20])


def _everything(wanted: set[str] | None = None) -> Iterator[tuple[str, Print]]:
    own = [name for name in sys.modules if name == OWN or name.startswith(f"{OWN}.")]
    for module_name in (*MODULES, *own):
        module = sys.modules.get(module_name)
        if module is None:
            continue
        for name, value in list(vars(module).items()):
            full = f"{module_name}.{name}"
            if wanted is not None and full not in wanted and not isinstance(value, type):
                continue
            if isinstance(value, FunctionType | BuiltinFunctionType | ModuleType) or callable(value):
                yield full, _print(value)
            if isinstance(value, type) and value.__module__ == module_name and module_name.startswith(OWN):
                yield from _class(full, value)
    for class_name in CLASSES:
        value = _find(class_name)
        if value is not None:
            yield from _class(class_name, value)


def _class(name: str, value: type) -> Iterator[tuple[str, Print]]:
    for attribute, member in list(vars(value).items()):
        if attribute in ("__dict__", "__weakref__", "__doc__", "__abstractmethods__", "_abc_impl"):
            continue
        inner = member
        if isinstance(member, staticmethod | classmethod):
            inner = member.__func__
        elif isinstance(member, property):
            inner = member.fget
        if callable(inner) or inspect.ismethoddescriptor(inner) or inspect.isdatadescriptor(inner):
            yield f"{name}.{attribute}", _print(inner)


def _print(value: Any) -> Print:
    if not isinstance(value, FunctionType):
        return (value,)
    cells = tuple(_cell(cell) for cell in value.__closure__ or ())
    keywords = tuple((value.__kwdefaults__ or {}).items())
    return (value, value.__code__, *(value.__defaults__ or ()), *keywords, *cells)


def _cell(cell: Any) -> Any:
    try:
        content = cell.cell_contents
    except ValueError:
        return None
    return content if callable(content) else None  # counters and caches in closures may change


def _same(before: Print, after: Print) -> bool:
    return len(before) == len(after) and all(
        one is other or (isinstance(one, tuple) and isinstance(other, tuple) and one[1] is other[1])
        for one, other in zip(before, after, strict=True)
    )


def _wrapped_by_torch(after: Print) -> bool:
    """Whether torch itself put this function there: Dynamo wraps a few of torch's when it is first used."""
    function = after[0]
    if not isinstance(function, FunctionType):
        return False
    module = sys.modules.get(function.__globals__.get("__name__", ""))
    torch_folder = str(Path(sys.modules["torch"].__file__ or "").parent)
    return (
        module is not None
        and vars(module) is function.__globals__
        and function.__code__.co_filename == getattr(module, "__file__", None)
        and function.__code__.co_filename.startswith(torch_folder)
    )


def _find(dotted: str) -> type | None:
    module_name, _, name = dotted.rpartition(".")
    try:
        module = sys.modules.get(module_name) or importlib.import_module(module_name)
    except ImportError:
        return None
    value = getattr(module, name, None)
    return value if isinstance(value, type) else None
