"""Values of meta files: literals, `nan`, `inf`, and very long number lists, none of them ever executed."""

from __future__ import annotations

import ast
import json
import math
import re
from pathlib import Path
from typing import Any

from pass_bench.data.source import parse_python
from pass_bench.errors import BadInput

_CONSTANTS = {"nan": math.nan, "inf": math.inf, "NaN": math.nan, "Infinity": math.inf}
_MODULES = ("math", "np", "numpy", "torch")

# Lists longer than this are read as JSON: an AST costs about 300 bytes and a microsecond per element.
_LONG_LIST = re.compile(r"^[ \t]+data[ \t]*=[ \t]*\[([^\[\]\"'#]{4096,})\]", re.MULTILINE)
_WORDS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity"}
_WORD = re.compile(r"\b(?:True|False|None|nan|inf)\b")


class NotLiteral(Exception):
    """A node is not one of the literals that metas may hold."""


def literal(node: ast.expr) -> Any:
    """The value of a literal expression.

    Takes numbers, strings, bools, None, lists, tuples and signs of them, `nan`, `inf`, `math.inf`,
    `float("nan")`, `float("inf")`, and `torch.<dtype>`, which becomes the string "torch.<dtype>".
    """
    match node:
        case ast.Constant(value=value) if not isinstance(value, bytes | type(...)):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            value = literal(operand)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise NotLiteral("sign before something that is not a number")
            return -value if isinstance(op, ast.USub) else value
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [literal(element) for element in elements]
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
            return _CONSTANTS.get(name, f"{module}.{name}")
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))], keywords=[]):
            try:
                return float(text)
            except ValueError:
                raise NotLiteral(f"float({text!r}) is not a number") from None
    raise NotLiteral(f"{type(node).__name__} is not a literal")


def parse_classes(text: str, path: Path) -> list[tuple[str, int, dict[str, tuple[Any, int]]]]:
    """The classes of a meta file, in file order: name, line, and fields as (value, line).

    Linear in the length of the file, also for lists of a million numbers. BadInput names the line of the
    first thing that is neither a class nor a literal field.
    """
    long_lists: dict[int, list[Any]] = {}
    tree = parse_python(_cut_long_lists(text, long_lists), path)
    classes = []
    for statement in tree.body:
        if _is_docstring(statement) or isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        if not isinstance(statement, ast.ClassDef):
            raise BadInput("unexpected statement", path=path, line=statement.lineno, expected="only classes")
        fields: dict[str, tuple[Any, int]] = {}
        for item in statement.body:
            if _is_docstring(item) or isinstance(item, ast.Pass):
                continue
            name, value, line = _field(item, path)
            fields[name] = (long_lists.pop(line) if line in long_lists else _value(value, path, line), line)
        classes.append((statement.name, statement.lineno, fields))
    return classes


def _cut_long_lists(text: str, found: dict[int, list[Any]]) -> str:
    """Replace every long list by `data = None` and as many line ends; put the lists in `found`, by line."""

    def cut(match: re.Match[str]) -> str:
        body = match.group(1)
        cleaned = _WORD.sub(lambda word: _WORDS[word.group()], body.rstrip().rstrip(","))
        try:
            values = json.loads(f"[{cleaned}]")
        except ValueError:
            return match.group()
        found[text.count("\n", 0, match.start()) + 1] = values
        indent = match.group()[: len(match.group()) - len(match.group().lstrip())]
        return f"{indent}data = (None" + "\n" * body.count("\n") + ")"

    return _LONG_LIST.sub(cut, text)


def _field(item: ast.stmt, path: Path) -> tuple[str, ast.expr, int]:
    match item:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value, item.lineno
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, value, item.lineno
    raise BadInput("unexpected statement", path=path, line=item.lineno, expected="field = literal")


def _value(node: ast.expr, path: Path, line: int) -> Any:
    try:
        return literal(node)
    except NotLiteral as error:
        raise BadInput(str(error), path=path, line=line, expected="a literal") from None
    except RecursionError:
        raise BadInput("nested too deeply", path=path, line=line) from None


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
