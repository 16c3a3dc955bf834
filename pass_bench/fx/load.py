"""Executing a checked model.py, with every device literal moved to the evaluation device."""

from __future__ import annotations

import ast
import functools
from typing import Any

import torch

from pass_bench.data import Graph, check_model_source
from pass_bench.errors import BadInput


def load_module(graph: Graph, device: str = "cpu") -> torch.nn.Module:
    """Check and execute the text of model.py; return an instance of its class.

    Device literals are moved to `device` in every form: `device(type='cuda', index=0)`, `"cuda:0"`,
    `.cuda()`. A graph recorded on another kind of device gets `device=` in the factory calls that leave it
    to the default. Raises BadInput, with the line, where the text is not straight-line torch code or cannot
    be executed.
    """
    path = graph.path / "model.py"
    check_model_source(graph.code, path)
    tree = ast.parse(graph.code, str(path))
    recorded = {torch.device(meta.device).type for meta in graph.metas.values()}
    target = torch.device(device)
    moved = MoveDevices(target, default_moves=target.type != "cpu" and target.type not in recorded)
    tree = ast.fix_missing_locations(moved.visit(tree))
    scope: dict[str, Any] = {"__name__": f"pass_bench_graph_{graph.name}"}
    try:
        exec(compile(tree, str(path), "exec"), scope)
        module = scope[graph.class_name]()
    except Exception as error:
        raise BadInput(f"cannot be executed: {type(error).__name__}: {error}", path=path) from error
    module.eval()
    return module


class MoveDevices(ast.NodeTransformer):
    """Rewrites device literals in the text of a model."""

    def __init__(self, device: torch.device, default_moves: bool):
        self.device = str(device)
        self.default_moves = default_moves

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        path = dotted(node.func)
        if path in ("device", "torch.device"):
            node.args, node.keywords = [ast.Constant(self.device)], []
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("cuda", "cpu"):
            node.func.attr = "to"
            node.args = [ast.Constant(self.device), *node.args[1:]]
            node.keywords = [k for k in node.keywords if k.arg != "device"]
        elif self.default_moves and path in factories() and not any(k.arg == "device" for k in node.keywords):
            node.keywords.append(ast.keyword("device", ast.Constant(self.device)))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(self.device) if is_device(node.value) else node


def dotted(node: ast.expr) -> str | None:
    """`torch.nn.functional.relu` of an attribute chain, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def is_device(value: object) -> bool:
    """Whether a literal names a device that holds data ("cuda:0", not "meta")."""
    if not isinstance(value, str) or not value[:1].isalpha():
        return False
    kind, _, index = value.partition(":")
    return kind in ("cpu", "cuda", "xpu", "mps", "hpu", "npu") and (not index or index.isdigit())


@functools.cache
def factories() -> frozenset[str]:
    """Dotted names of the functions whose result goes to the default device, as torch itself lists them."""
    from torch.utils._device import _device_constructors

    return frozenset(f"torch.{f.__name__}" for f in _device_constructors() if hasattr(torch, f.__name__))
