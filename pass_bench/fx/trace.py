"""Tracing straight-line torch code into an FX graph: models, patterns and replacement arguments alike.

Operands are proxies; a TorchFunctionMode turns every torch call made meanwhile into a node, also one without
a proxy among its arguments (`torch.arange(0, 4)`). Nothing is executed, so a trace takes milliseconds and is
independent of shapes. Node names follow the names of the local variables they are assigned to.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import Any

import torch
from torch import fx
from torch.fx.graph import inplace_methods
from torch.overrides import TorchFunctionMode, is_tensor_method_or_property

from pass_bench.fx.shadow import shadow_function


class TraceProxy(fx.Proxy):
    """A value while tracing: item assignment, in-place operators and attributes become nodes too."""

    def __getattr__(self, name: str) -> TraceAttribute:  # type: ignore[override]
        return TraceAttribute(self, name)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})


class TraceAttribute(TraceProxy):
    """`x.name`: a method if it is called, else a `getattr` node made when the value is first used."""

    def __init__(self, root: fx.Proxy, name: str):
        self.root = root
        self.attr = name
        self.tracer = root.tracer
        self._node: fx.Node | None = None
        followed = self.tracer.local_name() if isinstance(self.tracer, SourceTracer) else None
        self._name = followed or name

    @property
    def node(self) -> fx.Node:  # type: ignore[override]
        if self._node is None:
            args = (self.root, self.attr)
            self._node = self.tracer.create_proxy("call_function", getattr, args, {}, name=self._name).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _inplace(name: str) -> Callable[[Any, Any], fx.Proxy]:
    target = getattr(operator, name)

    def method(self: fx.Proxy, other: Any) -> fx.Proxy:
        return self.tracer.create_proxy("call_function", target, (self, other), {})

    return method


for _name in inplace_methods:
    if _name != "setitem":
        setattr(TraceProxy, f"__{_name}__", _inplace(_name))


class SourceTracer(fx.Tracer):
    """Records one function: `graph` holds the nodes, `root` the tensor constants they refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.tensor_attrs = {}
        self.sources: dict[CodeType, dict[int, str]] = {}

    def proxy(self, node: fx.Node) -> TraceProxy:
        return TraceProxy(node, self)

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> fx.Node:
        return self.graph.create_node(kind, target, args, kwargs, name or self.local_name(), type_expr)

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, torch.Size):
            return tuple(self.create_arg(item) for item in a)
        return super().create_arg(a)

    def follow(self, function: FunctionType) -> None:
        """Name nodes after the locals of `function`."""
        self.sources[function.__code__] = _assigned_names(function.__code__)

    def record(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the node of a torch call."""
        if is_tensor_method_or_property(target):
            name = target.__name__
            if name == "__get__":
                return getattr(args[0], target.__self__.__name__)  # type: ignore[attr-defined]
            return self.create_proxy("call_method", name, args, kwargs)
        return self.create_proxy("call_function", target, args, kwargs)

    def local_name(self) -> str | None:
        """The local variable that the operation being executed is assigned to, in a function we follow."""
        frame = inspect.currentframe()
        while frame is not None:
            names = self.sources.get(frame.f_code)
            if names is not None:
                return names.get(frame.f_lasti)
            frame = frame.f_back
        return None


def _assigned_names(code: CodeType) -> dict[int, str]:
    """Bytecode offset of an instruction -> local variable its result is stored in right away."""
    names: dict[int, str] = {}
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for here, after in itertools.pairwise(instructions):
        if after.opname == "STORE_FAST":
            names.update(dict.fromkeys(range(here.offset, after.offset), str(after.argval)))
    return names


class _RecordingMode(TorchFunctionMode):
    """Turns torch calls into nodes; what makes neither tensors nor effects is computed."""

    def __init__(self, tracer: SourceTracer):
        super().__init__()
        self.tracer = tracer

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, type):  # torch.device("cpu")
            return func(*args, **kwargs)
        if has_proxy((args, kwargs)) or _makes_tensor_or_effect(func, args, kwargs):
            return self.tracer.record(func, args, kwargs)
        return func(*args, **kwargs)


def _makes_tensor_or_effect(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            result = func(*args, **kwargs)
    except Exception:
        return True  # let the program itself say what is wrong with the call
    return result is None or any(isinstance(leaf, torch.Tensor) for leaf in leaves(result))


def has_proxy(value: Any) -> bool:
    """Whether a proxy is somewhere in nested arguments."""
    return any(isinstance(leaf, fx.Proxy) for leaf in leaves(value))


def attribute(module: Any, path: str) -> Any:
    """What a dotted path names in a module: a parameter, a buffer."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def leaves(value: Any) -> Iterator[Any]:
    """The non-container values in nested tuples, lists, dicts and slices."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, slice):
        yield from leaves((value.start, value.stop, value.step))
    else:
        yield value


def _call_in_trace(tracer: SourceTracer, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a torch function that may not know proxies: then the call itself becomes the node."""
    proxied = has_proxy((args, kwargs))
    if isinstance(function, FunctionType) and proxied:
        return tracer.record(function, args, kwargs)
    before = len(tracer.graph.nodes)
    try:
        result = function(*args, **kwargs)
    except TypeError:
        if proxied and isinstance(function, BuiltinFunctionType) and len(tracer.graph.nodes) == before:
            return tracer.record(function, args, kwargs)
        raise
    if result is None and len(tracer.graph.nodes) == before:
        return tracer.record(function, args, kwargs)  # called for its effect
    return result


def trace(function: Callable[..., Any], arguments: Sequence[str]) -> tuple[SourceTracer, Any]:
    """Run `function` on one placeholder per name of `arguments`; return the tracer and what it returned."""
    tracer = SourceTracer()
    target: Callable[..., Any] = function
    bound = getattr(function, "__self__", None) if inspect.ismethod(function) else None
    plain = function.__func__ if inspect.ismethod(function) else function
    if isinstance(plain, FunctionType):
        plain = shadow_function(plain, lambda f, a, k: _call_in_trace(tracer, f, a, k))
        tracer.follow(plain)
        target = plain if bound is None else plain.__get__(bound)
    proxies = [tracer.create_proxy("placeholder", name, (), {}, name=name) for name in arguments]
    with _RecordingMode(tracer):
        result = target(*proxies)
    return tracer, result


def finish(tracer: SourceTracer, result: Any, name: str) -> fx.GraphModule:
    """Close the graph with `result` as its output."""
    tracer.create_node("output", "output", (tracer.create_arg(result),), {}, name="output")
    tracer.graph.lint()
    return fx.GraphModule(tracer.root, tracer.graph, class_name=name)
