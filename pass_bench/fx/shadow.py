"""A function's view of torch while it is traced: every call reaches the tracer as it is written.

Some torch functions do not look for `__torch_function__` (`torch._check_is_size`, `math.sqrt`,
`torch._C._log_api_usage_once`), others offer themselves with all their defaults spelled out. So the traced
function is rebuilt on globals in which torch and math stand behind a view that hands calls to the tracer.
Nothing global is changed.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

Call = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
_ROOTS = ("torch", "math")


class ModuleView:
    """A module whose plain functions are called through `call`."""

    def __init__(self, module: ModuleType, call: Call):
        self._module = module
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return _view(getattr(self._module, name), self._call)


def _view(value: Any, call: Call) -> Any:
    if isinstance(value, ModuleType) and value.__name__.split(".")[0] in _ROOTS:
        return ModuleView(value, call)
    if isinstance(value, BuiltinFunctionType | FunctionType) and _root(value) in _ROOTS:

        def called(*args: Any, **kwargs: Any) -> Any:
            return call(value, args, kwargs)

        return called
    return value


def _root(value: Any) -> str:
    """The package that a function belongs to; torch's own builtins name their owner, not a module."""
    module = getattr(value, "__module__", None)
    if module is None and isinstance(value, BuiltinFunctionType):
        owner = getattr(value.__self__, "__name__", "")
        module = "torch" if owner.startswith("_VariableFunctions") else owner
    return str(module).split(".")[0]


def shadow_function(function: FunctionType, call: Call) -> FunctionType:
    """`function` rebuilt so that it, and the functions beside it that it calls, see torch through views."""
    return _shadow(function, call, {})


def _shadow(function: FunctionType, call: Call, done: dict[FunctionType, FunctionType]) -> FunctionType:
    if function in done:
        return done[function]
    scope = {
        **function.__globals__,
        "__builtins__": {**vars(builtins), "__import__": _import_view(call)},
    }
    rebuilt = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    done[function] = rebuilt
    for name in _names(function.__code__):
        value = scope.get(name)
        if isinstance(value, FunctionType) and _root(value) not in _ROOTS:
            if value.__module__ == function.__module__:
                scope[name] = _shadow(value, call, done)
        elif value is not None:
            scope[name] = _view(value, call)
    return rebuilt


def _names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names(constant)
    return names


def _import_view(call: Call) -> Callable[..., Any]:
    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        return _view(builtins.__import__(name, *args, **kwargs), call)

    return importing
