"""A graph as Python that traces back to the same graph."""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.graph import inplace_methods, magic_methods

from pass_bench.fx.operators import label

_IMPORTS = {"math": "import math", "operator": "import operator"}


def to_python(gm: fx.GraphModule, name: str = "pattern") -> str:
    """The graph as a function `name`, one line per node, with the imports it needs.

    Results that are None (`x[0] = y`) are left out of what it returns. Raises ValueError for a node that has
    no spelling in Python (a submodule, a tensor constant).
    """
    return _Writer(gm).function(name)


class _Writer:
    def __init__(self, gm: fx.GraphModule):
        self.gm = gm
        self.names: dict[fx.Node, str] = {}
        self.imports = {"import torch"}
        self.position = {node: i for i, node in enumerate(gm.graph.nodes)}

    def function(self, name: str) -> str:
        arguments, body = [], []
        for node in self.gm.graph.nodes:
            self.names[node] = node.name
            if node.op == "placeholder":
                arguments.append(node.name)
            elif node.op == "output":
                body.append(f"return {self._returned(node.args[0])}")
            else:
                body.append(self._statement(node))
        lines = [*sorted(self.imports), "", "", f"def {name}({', '.join(arguments)}):"]
        return "\n".join(lines + [f"    {line}" for line in body]) + "\n"

    def _returned(self, value: Any) -> str:
        if isinstance(value, tuple | list):
            value = [v for v in value if not (isinstance(v, fx.Node) and v.target is operator.setitem)]
            return self._value(tuple(value))
        return self._value(value)

    def _statement(self, node: fx.Node) -> str:
        if node.target is operator.setitem:
            where, index, value = node.args
            return f"{self._value(where)}[{self._index(index)}] = {self._value(value)}"
        form = (
            inplace_methods.get(getattr(node.target, "__name__", "")) if _is_operator(node.target) else None
        )
        first = node.args[0] if node.args else None
        if form is not None and isinstance(first, fx.Node) and self._last_use(first, node):
            self.names[node] = self.names[first]
            return form.format(self.names[first], self._value(node.args[1]))
        return f"{node.name} = {self._call(node)}"

    def _last_use(self, value: fx.Node, node: fx.Node) -> bool:
        """Whether `value += ...` may rebind the name: nothing after uses the old node."""
        return all(self.position[user] <= self.position[node] for user in value.users)

    def _call(self, node: fx.Node) -> str:
        if node.op == "call_method":
            receiver = self._operand(node.args[0])
            return f"{receiver}.{node.target}({self._arguments(node.args[1:], node.kwargs)})"
        if node.op != "call_function":
            raise ValueError(f"{node.op} {node.target} has no spelling in Python")
        if node.target is getattr and len(node.args) == 2:
            return f"{self._operand(node.args[0])}.{node.args[1]}"
        if node.target is operator.getitem:
            return f"{self._operand(node.args[0])}[{self._index(node.args[1])}]"
        name = getattr(node.target, "__name__", "")
        form = magic_methods.get(name) if _is_operator(node.target) else None
        if form is not None and not node.kwargs and any(isinstance(a, fx.Node) for a in node.args):
            return form.format(*(self._operand(a) for a in node.args))
        return f"{self._function(node.target)}({self._arguments(node.args, node.kwargs)})"

    def _function(self, target: Any) -> str:
        if isinstance(target, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
            return f"torch.ops.{target}"
        path = label(target)
        root = path.split(".")[0]
        if root in _IMPORTS:
            self.imports.add(_IMPORTS[root])
        elif root != "torch" and "." in path:
            self.imports.add(f"import {path.rpartition('.')[0]}")
        return path

    def _arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        return ", ".join(
            [self._value(a) for a in args] + [f"{key}={self._value(v)}" for key, v in kwargs.items()]
        )

    def _operand(self, value: Any) -> str:
        text = self._value(value)
        return f"({text})" if isinstance(value, int | float) and text.startswith("-") else text

    def _index(self, index: Any) -> str:
        items = index if isinstance(index, tuple) and index else (index,)
        text = ", ".join(self._slice(item) for item in items)
        return text + "," if isinstance(index, tuple) and len(index) == 1 else text

    def _slice(self, item: Any) -> str:
        if not isinstance(item, slice):
            return self._value(item)
        start, stop, step = ("" if v is None else self._value(v) for v in (item.start, item.stop, item.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def _value(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return self.names[value]
        if isinstance(value, list):
            return f"[{', '.join(map(self._value, value))}]"
        if isinstance(value, tuple):
            inner = ", ".join(map(self._value, value))
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self._value(v)}" for k, v in value.items()) + "}"
        if isinstance(value, slice):
            return f"slice({self._value(value.start)}, {self._value(value.stop)}, {self._value(value.step)})"
        if isinstance(value, torch.device):
            return f'torch.device("{value}")'
        if value is Ellipsis:
            return "..."
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        return repr(value)


def _is_operator(target: Any) -> bool:
    name = getattr(target, "__name__", "")
    return getattr(operator, name, None) is target and not keyword.iskeyword(name)
