"""From a module or a pattern to an FX graph."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from pass_bench.data import Graph
from pass_bench.errors import BadInput
from pass_bench.fx.trace import finish, trace


def capture(module: torch.nn.Module, arguments: Graph | Sequence[str]) -> fx.GraphModule:
    """The FX graph of a straight-line module, one node per torch operation, independent of shapes.

    `arguments` gives the names of forward's arguments. Node names follow the source's local variables.
    Raises BadInput where the code is no straight line (a branch on a tensor's value).
    """
    names = [a.name for a in arguments.arguments] if isinstance(arguments, Graph) else list(arguments)
    path = arguments.path / "model.py" if isinstance(arguments, Graph) else None
    return trace_callable(module.forward, names, "GraphModule", "the model", path)


def trace_pattern(pattern: Callable[..., Any] | fx.GraphModule) -> fx.GraphModule:
    """The graph of a pattern function, or the pattern itself where it is a graph already.

    Raises BadInput, with file and line of the pattern, where it cannot be traced.
    """
    if isinstance(pattern, fx.GraphModule):
        return pattern
    return trace_callable(pattern, argument_names(pattern), "Pattern", "pattern")


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Names of the positional arguments; raises BadInput for `*args` and keyword-only arguments."""
    parameters = inspect.signature(function).parameters.values()
    allowed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for parameter in parameters:
        if parameter.kind not in allowed:
            path, line = source_of(function)
            raise BadInput(
                f"{getattr(function, '__name__', function)} takes {parameter}",
                path=path,
                line=line,
                expected="plain arguments, one per input of the matched subgraph",
            )
    return [parameter.name for parameter in parameters]


def source_of(function: Callable[..., Any]) -> tuple[Path | None, int | None]:
    """File and first line of a function, where it has them."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (Path(code.co_filename), code.co_firstlineno) if code is not None else (None, None)


def trace_callable(
    function: Callable[..., Any],
    names: Sequence[str],
    class_name: str,
    what: str,
    path: Path | None = None,
) -> fx.GraphModule:
    """Trace straight-line code; raises BadInput with `what`, file and line where that is impossible."""
    try:
        tracer, result = trace(function, names)
        return finish(tracer, result, class_name)
    except BadInput:
        raise
    except Exception as error:
        file, line = source_of(function)
        for frame in traceback.extract_tb(error.__traceback__):
            if file is not None and frame.filename == str(file):
                line = frame.lineno
        text = str(error).strip().splitlines()
        raise BadInput(
            f"{what} cannot be traced: {type(error).__name__}: {text[0] if text else ''}",
            path=path or file,
            line=line,
            expected="straight-line torch code",
        ) from error
