"""A captured graph as a list of statements: text with holes for values, cut and printed without torch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pass_bench.data.records import TensorMeta
from pass_bench.data.source import parse_python
from pass_bench.errors import BadInput

Kind = Literal["weight", "input", "symint", "tensor", "number", "other"]

FREE = -1
HOLE = re.compile(r"_v(\d+)_")
_WEIGHT = re.compile(r"_self_|_instance_modules_")
_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_UNARY = {ast.USub: "neg", ast.Invert: "invert", ast.Not: "not_", ast.UAdd: "pos"}
_COMPARE = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph. `meta` is None for what is not a tensor, and where nothing was recorded."""

    name: str
    kind: Kind
    meta: TensorMeta | None = None

    @property
    def is_argument(self) -> bool:
        """Whether it enters the graph from outside."""
        return self.kind in ("weight", "input", "symint")


@dataclass(frozen=True, slots=True)
class Statement:
    """One node: an expression, or an effect followed by the name of what it changed.

    `text` has `_v<index>_` where a value stands. With `effect`, `text` is a whole statement
    (`_v1_ += _v2_`) and `result` is another name for the value it changed.
    """

    op: str
    text: str
    reads: tuple[int, ...]
    result: int
    effect: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """A graph: values (arguments first, in signature order), statements in order, returned values."""

    name: str
    values: tuple[Value, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[int, ...]

    @property
    def operators(self) -> tuple[str, ...]:
        """The operator of every statement, in order."""
        return tuple(statement.op for statement in self.statements)


def is_weight_name(original_name: str) -> bool:
    """Whether the published naming rule calls an argument of this name a weight."""
    return _WEIGHT.search(original_name) is not None


class _Holes(ast.NodeTransformer):
    """Puts holes in an expression and collects what it reads."""

    def __init__(self, bound: Mapping[str, int]):
        self.bound = bound
        self.reads: list[int] = []

    def visit_Name(self, node: ast.Name) -> ast.AST:
        index = self.bound.get(node.id)
        if index is None:
            return node
        if index not in self.reads:
            self.reads.append(index)
        return ast.Name(id=f"_v{index}_", ctx=node.ctx)


def operator_of(expression: ast.expr, bound: Iterable[str]) -> str:
    """The name of the operator an expression applies: `torch.conv2d`, `.view`, `operator.add`."""
    match expression:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
            dotted = _dotted(owner)
            return f".{attr}" if dotted is None or dotted.split(".")[0] in bound else f"{dotted}.{attr}"
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.BinOp(op=op):
            return f"operator.{_BINARY[type(op)]}"
        case ast.UnaryOp(op=unary):
            return f"operator.{_UNARY[type(unary)]}"
        case ast.Compare(ops=[compare]) if type(compare) in _COMPARE:
            return f"operator.{_COMPARE[type(compare)]}"
        case ast.Subscript():
            return "operator.getitem"
        case ast.Attribute(attr=attr):
            return f"getattr.{attr}"
        case ast.Tuple() | ast.List() | ast.Dict():
            return "builtins.pack"
    return f"builtins.{type(expression).__name__.lower()}"


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


class _Body:
    """Reads the lines of `forward` one by one."""

    def __init__(self, name: str, metas: Mapping[str, TensorMeta], kinds: Mapping[str, Kind]):
        self.name, self.metas, self.kinds = name, metas, kinds
        self.values: list[Value] = []
        self.bound: dict[str, int] = {}
        self.statements: list[Statement] = []
        self.outputs: tuple[int, ...] = ()
        self.effect: tuple[str, str, tuple[int, ...], int] | None = None

    def argument(self, argument: ast.arg) -> None:
        meta = self.metas.get(argument.arg)
        annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
        original = meta.original_name if meta is not None and meta.original_name else argument.arg
        kind: Kind = "weight" if is_weight_name(original) or argument.arg.startswith("w_") else "input"
        if "SymInt" in annotation or self.kinds.get(argument.arg) == "symint":
            kind = "symint"
        self._bind(argument.arg, Value(argument.arg, kind, meta))

    def line(self, line: ast.stmt) -> None:
        alias = self._alias(line)
        if self.effect is not None:
            named = alias is not None and alias == self.effect[3]
            self._finish_effect(line.targets[0].id if named else None)  # type: ignore[attr-defined]
            if named:
                return
        if isinstance(line, ast.Return):
            holes = _Holes(self.bound)
            if line.value is not None:
                holes.visit(line.value)
            self.outputs = tuple(holes.reads)
        elif alias is not None:
            for target in line.targets if alias != FREE else ():  # type: ignore[attr-defined]
                self.bound[target.id] = alias
        elif isinstance(line, ast.AugAssign):
            self._start_effect(line, line.target, f"operator.i{_BINARY[type(line.op)].rstrip('_')}")
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript):
            self._start_effect(line, line.targets[0].value, "operator.setitem")
        elif isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            self._expression(line.targets[0].id, line.value)
        elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
            self._expression(f"unnamed_{len(self.statements)}", line.value)
        elif not isinstance(line, ast.Pass):
            raise BadInput(
                "not straight-line code", path=self.name, line=line.lineno, expected="name = expression"
            )

    def _expression(self, target: str, expression: ast.expr) -> None:
        op = operator_of(expression, self.bound)
        holes = _Holes(self.bound)
        text = ast.unparse(holes.visit(expression))
        index = self._bind(target, Value(target, self.kinds.get(target, "tensor"), self.metas.get(target)))
        self.statements.append(Statement(op, text, tuple(holes.reads), index))

    def _start_effect(self, line: ast.stmt, changed: ast.expr, op: str) -> None:
        if not (isinstance(changed, ast.Name) and changed.id in self.bound):
            raise BadInput("changes something that has no name", path=self.name, line=line.lineno)
        holes = _Holes(self.bound)
        text = ast.unparse(holes.visit(line))
        self.effect = (op, text, tuple(holes.reads), self.bound[changed.id])

    def _finish_effect(self, target: str | None) -> None:
        assert self.effect is not None
        op, text, reads, changed = self.effect
        self.effect = None
        target = target or f"effect_{len(self.statements)}"
        value = Value(
            target, self.kinds.get(target, "tensor"), self.metas.get(target, self.values[changed].meta)
        )
        index = self._bind(target, value)
        self.statements.append(Statement(op, text, reads, index, effect=True))

    def _bind(self, target: str, value: Value) -> int:
        self.values.append(value)
        self.bound[target] = len(self.values) - 1
        return self.bound[target]

    def _alias(self, line: ast.stmt) -> int | None:
        """The value that `a = b = c` gives further names to; -1 where it is None, i.e. a free."""
        if not isinstance(line, ast.Assign) or not all(isinstance(t, ast.Name) for t in line.targets):
            return None
        if isinstance(line.value, ast.Name) and line.value.id in self.bound:
            return self.bound[line.value.id]
        if isinstance(line.value, ast.Constant) and line.value.value is None:
            return FREE
        return None


def read_listing(
    code: str, name: str, metas: Mapping[str, TensorMeta], kinds: Mapping[str, Kind] | None = None
) -> Listing:
    """Read the `forward` of a model.py, or of FX's own printout, whose metas are keyed by variable name.

    `kinds` says what a variable holds where that is not a tensor. BadInput, with the line, for code that is
    not straight-line.
    """
    tree = parse_python(code, Path(name))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "forward"
    ]
    if len(functions) != 1:
        raise BadInput("no single forward function", path=name, expected="class GraphModule with forward")
    body = _Body(name, metas, kinds or {})
    for argument in functions[0].args.args[1:]:
        body.argument(argument)
    for line in functions[0].body:
        body.line(line)
    return Listing(name, tuple(body.values), tuple(body.statements), body.outputs)
