"""What lies on disk, as frozen records: graphs, tensor metas, samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Number = int | float | bool

INTEGER_DTYPES = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
FLOAT_DTYPES = frozenset(
    {"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"}
    | {"float8_e4m3fnuz", "float8_e5m2fnuz"}
)
COMPLEX_DTYPES = frozenset({"complex32", "complex64", "complex128"})
DTYPES = INTEGER_DTYPES | FLOAT_DTYPES | COMPLEX_DTYPES | {"bool"}


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """How one tensor argument is made: shape, dtype and the statistics it is replayed from.

    `dtype` has no "torch." in front. `data` is flat, in row-major order.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"
    original_name: str | None = None
    mean: float | None = None
    std: float | None = None
    data: tuple[Number, ...] | None = None
    min_val: Number | None = None
    max_val: Number | None = None
    class_name: str = ""

    @property
    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is an integer one; bool is not."""
        return self.dtype in INTEGER_DTYPES

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a real floating-point one."""
        return self.dtype in FLOAT_DTYPES


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of `forward`; a "symint" is passed as an int."""

    name: str
    kind: Literal["tensor", "symint"]


@dataclass(frozen=True, slots=True)
class GraphInfo:
    """The contents of graph_net.json, in the order of the file."""

    values: Mapping[str, Any]

    @property
    def model_name(self) -> str:
        """The model the graph was taken from, or an empty string."""
        return str(self.values.get("model_name") or "")

    @property
    def heuristic_tag(self) -> str:
        """The kind of model ("nlp", "computer_vision"), or an empty string."""
        return str(self.values.get("heuristic_tag") or "")


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph directory: source text, arguments in signature order, metas of all tensors.

    `metas` is keyed by argument name and may hold metas that no argument uses: they are replayed too, because
    each draws from the same random stream. `constraints` is the text of input_tensor_constraints.py.
    """

    path: Path
    name: str
    code: str
    arguments: tuple[Argument, ...]
    metas: Mapping[str, TensorMeta]
    info: GraphInfo | None = None
    constraints: str = ""
    class_name: str = "GraphModule"
    sources: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphRef:
    """A graph of a sample: as listed, and where it is."""

    listed: str
    path: Path


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample directory: the graphs of its graph_list.txt, its pass_dir, uids and const_pass_dir if any."""

    path: Path
    graphs: tuple[GraphRef, ...]
    pass_dir: Path
    uids: tuple[str, ...] | None = None
    const_pass_dir: Path | None = None
