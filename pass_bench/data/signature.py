"""The signature of `GraphModule.forward`, from the syntax tree."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data.source import parse_python
from pass_bench.errors import BadInput

CLASS_NAME = "GraphModule"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of forward: its name, its annotation as text (None without one), its line."""

    name: str
    annotation: str | None
    line: int


def graph_class(tree: ast.Module, path: Path | None) -> ast.ClassDef:
    """The class GraphModule of a model.py; BadInput if there is none."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef) and statement.name == CLASS_NAME:
            return statement
    raise BadInput("no class GraphModule", path=path, expected="class GraphModule(torch.nn.Module)")


def forward_of(graph: ast.ClassDef, path: Path | None) -> ast.FunctionDef:
    """The method forward of a class; BadInput if there is none."""
    for statement in graph.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
            return statement
    raise BadInput(
        "GraphModule has no forward", path=path, line=graph.lineno, expected="def forward(self, ...)"
    )


def parse_signature(code: str, path: Path | None = None) -> tuple[Parameter, ...]:
    """The parameters of forward after self; BadInput for defaults, *args and keyword-only ones."""
    forward = forward_of(graph_class(parse_python(code, path), path), path)
    arguments = forward.args
    plain = arguments.posonlyargs + arguments.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
        raise BadInput(
            "forward has *args, defaults or keyword-only arguments",
            path=path,
            line=forward.lineno,
            expected="plain arguments, one per tensor",
        )
    if not plain or plain[0].arg != "self":
        raise BadInput("forward has no self", path=path, line=forward.lineno, expected="forward(self, ...)")
    return tuple(
        Parameter(a.arg, None if a.annotation is None else ast.unparse(a.annotation), a.lineno)
        for a in plain[1:]
    )
