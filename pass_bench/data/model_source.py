"""The allow-list that model.py must pass before a trusted process executes it.

A model may call the torch functions and tensor methods of torch_names.json, use operators, subscripts and
literals, and name its own arguments and locals. Nothing else: no builtin but a few number functions, no
module as a value, no attribute outside the list, no format strings, no nested scopes. A name that stands for
something callable can only be called, never stored or passed on.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import NoReturn

from pass_bench.data.signature import graph_class
from pass_bench.data.source import parse_python
from pass_bench.errors import BadInput

_ANNOTATIONS = frozenset(
    {"torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.Parameter", "torch.SymInt", "torch.SymFloat"}
    | {"torch.SymBool", "int", "float", "bool"}
)
_IMPORTS = {"torch": {"device", "inf", "nan"}, "math": {"inf", "nan"}}
_BUILTINS = frozenset({"slice", "int", "float", "bool", "max", "min", "abs", "round", "len"})
_RESERVED = _BUILTINS | {"torch", "device", "inf", "nan", "self", "Ellipsis"}
# Functions that open and close a region in the process; a graph must close what it opens.
_PAIRS = (("_vmap_increment_nesting", "_vmap_decrement_nesting"), ("_enter_autocast", "_exit_autocast"))
_MAX_EXPONENT = 64
_EXPECTED = "torch calls, tensor methods, operators"


@cache
def _names(kind: str) -> frozenset[str]:
    return frozenset(json.loads((Path(__file__).parent / "torch_names.json").read_text())[kind])


def check_model_source(code: str, path: Path | str | None = None) -> None:
    """Refuse a model.py that does anything but compute with torch.

    Raises BadInput with the line of the first thing that is not on the allow-list. Nothing is executed or
    imported; torch is not needed.
    """
    path = None if path is None else Path(path)
    tree = parse_python(code, path)
    checker = _Checker(path)
    graph = graph_class(tree, path)
    try:
        for statement in tree.body:
            if statement is graph:
                checker.check_class(graph)
            else:
                checker.check_import(statement)
        checker.check_pairs(graph)
    except RecursionError:
        raise BadInput("nested too deeply", path=path, expected="straight-line torch code") from None


class _Checker:
    def __init__(self, path: Path | None):
        self.path = path
        self.imported: set[str] = set()
        self.locals: set[str] = set()
        self.calls: list[str] = []

    def refuse(self, node: ast.AST, what: str, expected: str = _EXPECTED) -> NoReturn:
        raise BadInput(what, path=self.path, line=getattr(node, "lineno", None), expected=expected)

    def check_import(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Import(names=names) if all(n.name == "torch" and not n.asname for n in names):
                return
            case ast.ImportFrom(module=module, names=names, level=0) if module in _IMPORTS:
                if all(n.name in _IMPORTS[module] and not n.asname for n in names):
                    self.imported.update(n.name for n in names)
                    return
            case ast.Expr(value=ast.Constant(value=str())):
                return
        self.refuse(
            statement, "statement outside the class", "only `import torch`, `from torch import device, inf`"
        )

    def check_class(self, graph: ast.ClassDef) -> None:
        bases = [ast.unparse(base) for base in graph.bases]
        if bases != ["torch.nn.Module"] or graph.keywords or graph.decorator_list or _type_params(graph):
            self.refuse(graph, "not a plain module", "class GraphModule(torch.nn.Module)")
        forwards = 0
        for statement in graph.body:
            match statement:
                case ast.FunctionDef(name="forward"):
                    forwards += 1
                    self.check_forward(statement)
                case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                    pass
                case _:
                    self.refuse(statement, "statement in the class besides forward", "only forward")
        if forwards != 1:
            self.refuse(graph, f"{forwards} definitions of forward", "one forward")

    def check_forward(self, forward: ast.FunctionDef) -> None:
        arguments = forward.args
        plain = arguments.posonlyargs + arguments.args
        extra = arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults
        if forward.decorator_list or extra or _type_params(forward):
            self.refuse(forward, "forward is decorated or has defaults", "plain arguments")
        if not plain or plain[0].arg != "self":
            self.refuse(forward, "forward has no self", "forward(self, ...)")
        for argument in plain:
            self.check_annotation(argument.annotation)
        self.check_annotation(forward.returns)
        for argument in plain[1:]:
            self.bind(argument, argument.arg)
        for statement in forward.body:
            self.check_statement(statement)

    def check_annotation(self, annotation: ast.expr | None) -> None:
        if annotation is None or isinstance(annotation, ast.Constant):
            return
        if ast.unparse(annotation) not in _ANNOTATIONS:
            self.refuse(
                annotation, f"annotation {ast.unparse(annotation)[:60]}", "torch.Tensor, torch.SymInt, ..."
            )

    def bind(self, node: ast.AST, name: str) -> None:
        if name in _RESERVED or name.startswith("__"):
            self.refuse(node, f"assigns to {name}", "a name of its own")
        self.locals.add(name)

    def check_statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                self.check(value)
                for target in targets:
                    self.check_target(target)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                self.check_annotation(annotation)
                if value is not None:
                    self.check(value)
                    self.bind(statement, name)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self.check_name(statement, name)
                self.check(value)
                self.check_operator(statement, op, value)
                self.bind(statement, name)
            case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value):
                self.check(value)
                self.check_operator(statement, op, value)
                self.check_target(target)
            case ast.Expr(value=value):
                self.check(value)
            case ast.Return(value=value):
                if value is not None:
                    self.check(value)
            case ast.Pass():
                pass
            case _:
                self.refuse(statement, f"{type(statement).__name__} statement", "straight-line torch code")

    def check_target(self, target: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self.bind(target, name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self.check_target(element)
            case ast.Subscript(value=value, slice=index):
                self.check(value)
                self.check(index)
            case _:
                self.refuse(target, f"assigns to {ast.unparse(target)[:60]}", "a local name or a subscript")

    def check_name(self, node: ast.AST, name: str) -> None:
        if name in self.locals or name == "Ellipsis" or (name in self.imported and name != "device"):
            return
        self.refuse(node, f"name {name}", "arguments, locals that were assigned before, inf")

    def check(self, node: ast.expr) -> None:
        """Check an expression that is used as a value."""
        match node:
            case ast.Constant(value=value):
                if isinstance(value, bytes):
                    self.refuse(node, "bytes literal")
            case ast.Name(id=name):
                self.check_name(node, name)
            case ast.Attribute():
                self.check_attribute(node)
            case ast.Call():
                self.check_call(node)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                for element in elements:
                    self.check(element)
            case ast.BinOp(left=left, op=op, right=right):
                self.check(left)
                self.check(right)
                self.check_operator(node, op, right)
                if isinstance(left, ast.Constant) and isinstance(left.value, str):
                    self.refuse(node, "operator on a string")
            case ast.UnaryOp(operand=operand):
                self.check(operand)
            case ast.BoolOp(values=values):
                for value in values:
                    self.check(value)
            case ast.Compare(left=left, comparators=comparators):
                for value in (left, *comparators):
                    self.check(value)
            case ast.Subscript(value=value, slice=index):
                self.check(value)
                self.check(index)
            case ast.Slice(lower=lower, upper=upper, step=step):
                for part in (lower, upper, step):
                    if part is not None:
                        self.check(part)
            case _:
                self.refuse(node, f"{type(node).__name__} expression")

    def check_operator(self, node: ast.AST, op: ast.operator, right: ast.expr) -> None:
        """Refuse literal powers and shifts that would fill memory before torch is ever called."""
        if isinstance(op, ast.Pow | ast.LShift) and isinstance(right, ast.Constant):
            value = right.value
            if isinstance(value, int) and abs(value) > _MAX_EXPONENT:
                self.refuse(node, f"exponent {value}", f"at most {_MAX_EXPONENT}")

    def check_attribute(self, node: ast.Attribute) -> None:
        dotted = _torch_path(node)
        if dotted is not None:
            if dotted not in _names("values"):
                self.refuse(node, f"{dotted} as a value", "torch dtypes, layouts, inf")
            return
        if node.attr not in _names("attributes"):
            self.refuse(node, f"attribute .{node.attr}", "shape, device, dtype and the like")
        self.check(node.value)

    def check_call(self, node: ast.Call) -> None:
        match node.func:
            case ast.Name(id=name):
                if name not in _BUILTINS and not (name == "device" and name in self.imported):
                    self.refuse(node, f"call of {name}")
            case ast.Attribute(value=owner, attr=attr) as function:
                dotted = _torch_path(function)
                if dotted is None:
                    if attr not in _names("methods"):
                        self.refuse(node, f"method .{attr}", "tensor methods that compute")
                    self.check(owner)
                elif not _is_torch_call(dotted):
                    self.refuse(node, f"call of {dotted}", "torch functions that compute")
                else:
                    self.calls.append(dotted.rsplit(".", 1)[-1])
            case other:
                self.refuse(node, f"call of {ast.unparse(other)[:60]}")
        for argument in node.args:
            self.check(argument)
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg.startswith("__"):
                self.refuse(node, "** in a call", "named arguments")
            self.check(keyword.value)

    def check_pairs(self, graph: ast.ClassDef) -> None:
        for opening, closing in _PAIRS:
            depth = 0
            for call in self.calls:
                depth += (call == opening) - (call == closing)
                if depth < 0:
                    self.refuse(graph, f"{closing} without {opening}", "pairs")
            if depth:
                self.refuse(graph, f"{opening} without {closing}", "pairs")


def _torch_path(node: ast.expr) -> str | None:
    """`torch.nn.functional.relu` for such a chain of attributes, None where it does not start at torch."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id != "torch":
        return None
    return ".".join(["torch", *reversed(parts)])


def _is_torch_call(dotted: str) -> bool:
    if dotted.startswith("torch.ops.aten."):
        name, _, overload = dotted.removeprefix("torch.ops.aten.").partition(".")
        return name in _names("aten") and "." not in overload and not overload.startswith("_")
    return dotted in _names("functions")


def _type_params(node: ast.AST) -> bool:
    return bool(getattr(node, "type_params", None))  # Python 3.12 syntax
