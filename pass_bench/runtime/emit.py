"""Write a graph as straight Python: one statement a node, everything else bound by name."""

from __future__ import annotations

import keyword
import linecache
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch import fx

INFIX = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}
PREFIX = {operator.neg: "-", operator.invert: "~", operator.pos: "+"}


@dataclass
class Source:
    """Python lines under construction; `bound` are the objects that they use by name."""

    prefix: str
    lines: list[str] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _locals: set[str] = field(default_factory=set)

    def bind(self, value: Any, hint: str = "k") -> str:
        """A name for an object, the same for the same object."""
        known = self._names.get(id(value))
        if known is not None:
            return known
        name = f"{self.prefix}{re.sub(r'[^0-9a-zA-Z_]', '_', hint)[:40]}_{len(self.bound)}"
        self.bound[name] = value
        self._names[id(value)] = name
        return name

    def local(self, hint: str) -> str:
        """A fresh name for a local variable."""
        hint = re.sub(r"[^0-9a-zA-Z_]", "_", hint) or "v"
        if hint[0].isdigit() or keyword.iskeyword(hint):
            hint = f"v_{hint}"
        name, count = hint, 0
        while name in self._locals or name.startswith(self.prefix):
            count += 1
            name = f"{hint}_{count}"
        self._locals.add(name)
        return name

    def literal(self, value: Any, name_of: Callable[[Any], str | None] = lambda value: None) -> str:
        """An expression for a value; `name_of` names those that are variables."""
        known = name_of(value)
        if known is not None:
            return known
        if value is None or value is Ellipsis or type(value) in (bool, int, str):
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else self.bind(value, "float")
        if type(value) in (tuple, fx.immutable_collections.immutable_list, list, torch.Size):
            parts = [self.literal(item, name_of) for item in value]
            if isinstance(value, list):
                return f"[{', '.join(parts)}]"
            return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        if type(value) is slice:
            parts = [self.literal(item, name_of) for item in (value.start, value.stop, value.step)]
            return f"{self.bind(slice, 'slice')}({', '.join(parts)})"
        if isinstance(value, dict):
            return (
                "{"
                + ", ".join(
                    f"{self.literal(k, name_of)}: {self.literal(v, name_of)}" for k, v in value.items()
                )
                + "}"
            )
        return self.bind(value, getattr(value, "__name__", type(value).__name__))

    def call(
        self, function: str, args: Sequence[Any], kwargs: dict[str, Any], name_of: Callable[[Any], str | None]
    ) -> str:
        """The text of a call."""
        parts = [self.literal(arg, name_of) for arg in args]
        parts += [f"{key}={self.literal(value, name_of)}" for key, value in kwargs.items()]
        return f"{function}({', '.join(parts)})"


class GraphWriter:
    """Writes the body of a function for a graph into `source`.

    `inline` may write a node itself: it is called with (writer, node) and returns whether it did.
    """

    def __init__(
        self,
        gm: fx.GraphModule,
        graph: fx.Graph,
        source: Source,
        inline: Callable[[GraphWriter, fx.Node], bool] = lambda writer, node: False,
    ) -> None:
        self.gm = gm
        self.graph = graph
        self.source = source
        self.names: dict[fx.Node, str] = {}
        self.elements: dict[fx.Node, tuple[str, ...]] = {}  # of results that are tuples written out
        self.inline = inline

    def parameters(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        for node in self.graph.nodes:
            if node.op == "placeholder" and node not in self.names:
                self.names[node] = self.source.local(node.name)
        return tuple(self.names[node] for node in self.graph.nodes if node.op == "placeholder")

    def name_of(self, value: Any) -> str | None:
        return self.names[value] if isinstance(value, fx.Node) else None

    def write(self) -> None:
        """Write every node, freeing each value after its last use."""
        self.parameters()
        last_use = self._last_uses()
        for node in self.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                result = self.source.literal(node.args[0], self.name_of)
                self.source.lines.append(f"return {result}")
                return
            if not self.inline(self, node):
                self._write_node(node)
            self._free(last_use.get(node, ()))

    def _free(self, nodes: Sequence[fx.Node]) -> None:
        """Drop the references to dead values; inputs belong to the caller, dropping them frees nothing."""
        names = [self.names[node] for node in nodes if node.op not in ("placeholder", "get_attr")]
        dead = [name for name in dict.fromkeys(names) if name not in ("None", "_")]
        if dead:
            self.source.lines.append(f"{' = '.join(dead)} = None")

    def _last_uses(self) -> dict[fx.Node, list[fx.Node]]:
        last: dict[fx.Node, fx.Node] = {}
        for node in self.graph.nodes:
            for used in node.all_input_nodes:
                last[used] = node
            if not node.users:
                last[node] = node
        uses: dict[fx.Node, list[fx.Node]] = {}
        for used, user in last.items():
            uses.setdefault(user, []).append(used)
        return uses

    def _write_node(self, node: fx.Node) -> None:
        lines = self.source.lines
        if node.op == "get_attr":
            value: Any = self.gm
            for part in str(node.target).split("."):
                value = getattr(value, part)
            self.names[node] = self.source.bind(value, node.name)
            return
        if node.target is operator.setitem:
            target, key, value = (self.source.literal(arg, self.name_of) for arg in node.args)
            self.names[node] = "None"
            lines.append(f"{target}[{key}] = {value}")
            return
        text = self.expression(node)
        if not node.users:
            self.names[node] = "_"
            lines.append(text)
            return
        self.names[node] = self.source.local(node.name)
        lines.append(f"{self.names[node]} = {text}")

    def expression(self, node: fx.Node) -> str:
        """The expression that computes a node."""
        source, target = self.source, node.target
        if node.op == "call_method":
            return source.call(
                f"{self._operand(node.args[0])}.{target}", node.args[1:], node.kwargs, self.name_of
            )
        if node.op == "call_module":
            module = self.gm.get_submodule(str(target))
            return source.call(source.bind(module, node.name), node.args, node.kwargs, self.name_of)
        if not node.kwargs:
            if target is operator.getitem:
                return f"{self._operand(node.args[0])}[{self._subscript(node.args[1])}]"
            if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
                return f"{self._operand(node.args[0])}.{node.args[1]}"
            if target in INFIX and len(node.args) == 2:
                left, right = (self._operand(arg) for arg in node.args)
                return f"{left} {INFIX[target]} {right}"
            if target in PREFIX and len(node.args) == 1:
                return f"{PREFIX[target]}{self._operand(node.args[0])}"
        function = source.bind(target, getattr(target, "__name__", "call"))
        return source.call(function, node.args, node.kwargs, self.name_of)

    def _operand(self, value: Any) -> str:
        text = self.source.literal(value, self.name_of)
        return text if isinstance(value, fx.Node) else f"({text})"

    def _subscript(self, value: Any) -> str:
        if type(value) is slice:
            parts = [
                "" if part is None else self.source.literal(part, self.name_of)
                for part in (value.start, value.stop, value.step)
            ]
            return ":".join(parts[:2] if value.step is None else parts)
        if type(value) is tuple and value:
            return ", ".join(self._subscript(part) for part in value) + ("," if len(value) == 1 else "")
        return self.source.literal(value, self.name_of)


def compile_function(name: str, parameters: Sequence[str], lines: Sequence[str], label: str) -> CodeType:
    """Compile a function's lines; its bound names are looked up in the globals it is given.

    The text is kept where tracebacks find it, under `<label>`.
    """
    body = "\n    ".join(lines) or "pass"
    text = f"def {name}({', '.join(parameters)}):\n    {body}\n"
    filename = f"<{label}>"
    module = compile(text, filename, "exec", dont_inherit=True)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


def written_source(code: CodeType) -> str:
    """The text that `compile_function` compiled."""
    return "".join(linecache.getlines(code.co_filename))
