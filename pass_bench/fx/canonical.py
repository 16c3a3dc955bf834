"""The canonical forms of a node: operator identity and bound parameters, the same for all spellings."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

import torch
from torch import fx

from pass_bench.fx.operators import identify
from pass_bench.fx.signature import bind
from pass_bench.fx.trace import SourceTracer


@dataclass(frozen=True, eq=False)
class Form:
    """One reading of a call: operator `key`, arguments by parameter name, defaults of parameters left out.

    `overloads` names the signatures under which the call reads like this; None: any.
    """

    key: Hashable
    label: str
    arguments: Mapping[str, Any]
    defaults: Mapping[str, Any]
    overloads: frozenset[str]


@dataclass(frozen=True, eq=False)
class CallView:
    """A call on nodes of a graph that it is no part of."""

    op: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def forms(node: fx.Node | CallView) -> tuple[Form, ...]:
    """All readings of a call node; the first is the node's own, in words closest to its source.

    A Python function of torch that, with these arguments, does nothing but call one other operator
    (`F.softmax` -> `.softmax`) reads as that operator too.
    """
    found = list(_own_forms(node))
    body = identify(node.op, node.target).body
    if isinstance(body, FunctionType):
        inner = _inlined(body, node)
        if inner is not None:
            found += forms(inner)
    return tuple(found)


def _own_forms(node: fx.Node | CallView) -> list[Form]:
    operator = identify(node.op, node.target)
    found: list[Form] = []
    for strict in (True, False):
        for signature in operator.signatures:
            bound = bind(signature, node.args, node.kwargs, operator.method, strict)
            if bound is not None:
                defaults = {k: v for k, v in signature.defaults.items() if k not in bound}
                _add(found, Form(operator.key, operator.label, bound, defaults, frozenset({signature.name})))
        if found:
            return found
    raw: dict[str, Any] = {str(i): value for i, value in enumerate(node.args)}
    raw.update(node.kwargs)
    return [Form(operator.key, operator.label, raw, {}, frozenset({"positional"}))]


def _add(found: list[Form], form: Form) -> None:
    for i, other in enumerate(found):
        if _identical(other.arguments, form.arguments) and _identical(other.defaults, form.defaults):
            found[i] = Form(
                form.key, form.label, other.arguments, other.defaults, other.overloads | form.overloads
            )
            return
    found.append(form)


def _identical(one: Mapping[str, Any], two: Mapping[str, Any]) -> bool:
    return one.keys() == two.keys() and all(repr(one[k]) == repr(two[k]) for k in one)


def _inlined(function: FunctionType, node: fx.Node | CallView) -> CallView | None:
    """The one call that `function` amounts to with the arguments of `node`, on the nodes of its own graph."""
    tracer = SourceTracer()
    outer: dict[fx.Node, fx.Node] = {}
    proxies: dict[fx.Node, fx.Proxy] = {}

    def proxy(value: fx.Node) -> Any:
        if value not in proxies:
            proxies[value] = tracer.create_proxy("placeholder", f"a{len(proxies)}", (), {})
            outer[proxies[value].node] = value
        return proxies[value]

    args = fx.node.map_arg(node.args, proxy)
    kwargs = fx.node.map_arg(node.kwargs, proxy)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            result = _without_dispatch(function)(*args, **kwargs)
    except Exception:
        return None  # the function looks at its tensors: it stays what it is
    if not isinstance(result, fx.Proxy):
        return None
    made = [n for n in tracer.graph.nodes if n.op != "placeholder"]
    if made != [result.node]:
        return None
    inner = result.node
    target = getattr(inner.target, "__wrapped__", inner.target)  # what a rebuilt function stands for
    if target is function:
        return None
    return CallView(
        inner.op,
        target,
        fx.node.map_arg(inner.args, lambda n: outer[n]),
        fx.node.map_arg(inner.kwargs, lambda n: outer[n]),
    )


@functools.cache
def _without_dispatch(function: FunctionType) -> FunctionType:
    """`function` rebuilt to run its body, and the bodies of what it calls beside it, without dispatching."""
    return _rebuilt(function, {})


def _rebuilt(function: FunctionType, done: dict[FunctionType, FunctionType]) -> FunctionType:
    if function in done:
        return done[function]
    scope = dict(function.__globals__)
    cells = tuple(CellType(cell.cell_contents) for cell in function.__closure__ or ())
    rebuilt = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells or None)
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    rebuilt.__wrapped__ = function  # type: ignore[attr-defined]
    done[function] = rebuilt
    for cell in cells:
        if isinstance(cell.cell_contents, FunctionType):
            cell.cell_contents = _rebuilt(cell.cell_contents, done)
    for name in function.__code__.co_names:
        value = scope.get(name)
        if name.startswith("has_torch_function"):
            scope[name] = _never
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__ and _checks(value):
            scope[name] = _rebuilt(value, done)
    return rebuilt


def _checks(function: FunctionType) -> bool:
    return any(name.startswith("has_torch_function") for name in function.__code__.co_names)


def _never(*args: Any, **kwargs: Any) -> bool:
    return False
