"""The call that takes the place of a match: its arguments, its results."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from pass_bench.errors import BadInput
from pass_bench.fx.capture import source_of, trace_callable
from pass_bench.fx.match import Match
from pass_bench.fx.plan import Pattern
from pass_bench.fx.trace import leaves


@dataclass(frozen=True)
class Arguments:
    """A traced `replacement_args`: one placeholder per pattern argument, the output is the argument tuple."""

    gm: fx.GraphModule


def trace_arguments(function: Callable[..., Any], count: int) -> Arguments:
    """Trace replacement_args; raises BadInput unless it takes the pattern's arguments and returns a tuple."""
    path, line = source_of(function)
    names = [f"argument_{i}" for i in range(count)]
    try:
        inspect.signature(function).bind(*names)
    except TypeError as error:
        what = f"replacement_args does not take the {count} arguments of the pattern: {error}"
        raise BadInput(what, path=path, line=line) from None
    gm = trace_callable(function, names, "ReplacementArguments", "replacement_args")
    if not isinstance(gm.graph.output_node().args[0], tuple | list):
        raise BadInput(
            "replacement_args does not return a tuple",
            path=path,
            line=line,
            expected="the arguments of the replacement function, as in `return (x, weight)`",
        )
    return Arguments(gm)


def emit(
    graph: fx.Graph,
    pattern: Pattern,
    match: Match,
    arguments: Arguments,
    function: Callable[..., Any],
    env: Mapping[fx.Node, Any],
) -> dict[fx.Node, fx.Node]:
    """Append the call to `graph`; return the new node of each matched node that is a pattern output."""

    def renewed(value: Any) -> Any:
        return fx.node.map_arg(value, lambda n: env[n])

    given = [renewed(match.arguments[p]) for p in pattern.placeholders]
    values: dict[fx.Node, Any] = {}
    placeholders = iter(given)
    for node in arguments.gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(placeholders)
        elif node.op != "output":
            values[node] = _computed(graph, node, values)
    args = _substitute(arguments.gm.graph.output_node().args[0], values)
    call = graph.call_function(function, tuple(args))
    return _results(graph, pattern.output, match, call)


def _computed(graph: fx.Graph, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """A value that replacement_args computes: at once from literals, else as a node."""
    args, kwargs = _substitute(node.args, values), _substitute(node.kwargs, values)
    if not any(isinstance(leaf, fx.Node) for leaf in leaves((args, kwargs))):
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        assert callable(node.target)
        return node.target(*args, **kwargs)
    return graph.create_node(node.op, node.target, args, kwargs, name=node.name)


def _substitute(value: Any, values: Mapping[fx.Node, Any]) -> Any:
    if isinstance(value, fx.Node):
        return values[value]
    if isinstance(value, tuple | list):
        return type(value)([_substitute(item, values) for item in value])
    if isinstance(value, dict):
        return {key: _substitute(item, values) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(_substitute(v, values) for v in (value.start, value.stop, value.step)))
    return value


def only_result(result: Any) -> Any:
    """The one result of a replacement for a pattern that returns a 1-tuple: alone or in a tuple."""
    return result[0] if isinstance(result, tuple | list) else result


def _results(graph: fx.Graph, output: Any, match: Match, call: fx.Node) -> dict[fx.Node, fx.Node]:
    results: dict[fx.Node, fx.Node] = {}

    def unpack(value: Any, node: fx.Node) -> None:
        if isinstance(value, fx.Node):
            image = match.value_of(value)
            if value in match.nodes and image not in results:
                results[image] = node
        elif isinstance(value, tuple | list) and len(value) == 1:
            unpack(value[0], graph.call_function(only_result, (node,)))
        elif isinstance(value, tuple | list | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                if any(isinstance(leaf, fx.Node) and leaf in match.nodes for leaf in leaves(item)):
                    unpack(item, graph.call_function(operator.getitem, (node, key)))

    unpack(output, call)
    return results
