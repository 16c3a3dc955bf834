"""What can be read from a graph directory without running it: code, tensors, operators, bytes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path

CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
FIELD = re.compile(r"^\s+(name|shape|dtype)\s*=\s*(.+?)\s*$", re.MULTILINE)
SIZES = {
    "float64": 8,
    "int64": 8,
    "complex64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.MatMult: "matmul",
    ast.Pow: "pow",
}


@dataclass(frozen=True)
class TensorSource:
    """One tensor argument; `shape` as recorded, `dtype` without "torch."."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size_bytes(self) -> int:
        return tensor_bytes(self.shape, self.dtype)


@dataclass(frozen=True)
class GraphSource:
    """One listed graph."""

    listed: str
    code: str
    tensors: tuple[TensorSource, ...]
    operators: Counter[str] = field(default_factory=Counter)

    @property
    def input_bytes(self) -> int:
        """Bytes of all tensor arguments, each counted once."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Floating-point dtypes of its arguments."""
        return tuple(sorted({tensor.dtype for tensor in self.tensors if "float" in tensor.dtype}))


def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a dense tensor; unknown dtypes count one byte an element."""
    return prod(shape) * SIZES.get(dtype, 1)


def read_graph_source(folder: Path, listed: str) -> GraphSource:
    """Read a graph directory; metas that cannot be read are left out, since only prompts depend on them."""
    code = (folder / "model.py").read_text(encoding="utf-8", errors="replace")
    tensors: list[TensorSource] = []
    for name in ("weight_meta.py", "input_meta.py"):
        path = folder / name
        if path.is_file():
            tensors += _read_metas(path.read_text(encoding="utf-8", errors="replace"))
    return GraphSource(listed, code, tuple(tensors), read_operators(code))


def _read_metas(text: str) -> list[TensorSource]:
    found = []
    starts = [match.start() for match in CLASS.finditer(text)] + [len(text)]
    for begin, end in pairwise(starts):
        fields = dict(FIELD.findall(text[begin:end]))
        try:
            name, shape, dtype = (ast.literal_eval(fields[key]) for key in ("name", "shape", "dtype"))
            sizes = tuple(int(size) for size in shape)
        except (KeyError, ValueError, SyntaxError, TypeError):
            continue
        found.append(TensorSource(str(name), sizes, str(dtype).removeprefix("torch.")))
    return found


def read_operators(code: str) -> Counter[str]:
    """Count the operators called in forward, by their last name: `torch.nn.functional.gelu` -> gelu."""
    counts: Counter[str] = Counter()
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return counts
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            counts[node.func.attr.rstrip("_")] += 1
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            counts[OPERATORS[type(node.op)]] += 1
    for name in ("super", "__init__", "device"):
        counts.pop(name, None)
    return counts


def overlap(one: Counter[str], other: Counter[str]) -> float:
    """Weighted Jaccard index of two operator counts, 0 to 1."""
    union = sum((one | other).values())
    return sum((one & other).values()) / union if union else 0.0
