"""What extraction keeps of one model: its listings, how they change with dtype and sizes, its kernels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.listing import Listing, Statement, Value
from pass_bench.errors import BadInput

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Delta:
    """How a listing changes when captured in another way: statement texts, shapes and dtypes by index."""

    texts: Mapping[int, str] = field(default_factory=dict)
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    dtypes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Traced:
    """One captured graph.

    `float16` is the change to half precision. `batch` and `sequence` are each a size and the change that it
    brings, against `sizes`. `kernels` holds, per kernel of a fusing compiler, the statements it computes;
    None where that is not known."""

    listing: Listing
    sizes: tuple[int, int] = (1, 64)
    float16: Delta | None = None
    batch: tuple[int, Delta] | None = None
    sequence: tuple[int, Delta] | None = None
    kernels: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """One configuration of one model class: what was captured, or why it was not."""

    library: str
    name: str
    class_name: str
    tag: str = "other"
    graphs: tuple[Traced, ...] = ()
    failure: str | None = None
    parameters: int = 0
    measured: bool = True
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """library/name."""
        return f"{self.library}/{self.name}"


def delta_of(base: Listing, other: Listing) -> Delta | None:
    """The change from one capture to another; None where they do not have the same operators in order."""
    if base.operators != other.operators or len(base.values) != len(other.values):
        return None
    for one, two in zip(base.statements, other.statements, strict=True):
        if one.reads != two.reads or one.result != two.result:
            return None
    texts = {
        index: two.text
        for index, (one, two) in enumerate(zip(base.statements, other.statements, strict=True))
        if one.text != two.text
    }
    shapes: dict[int, tuple[int, ...]] = {}
    dtypes: dict[int, str] = {}
    for index, (value, changed) in enumerate(zip(base.values, other.values, strict=True)):
        if value.meta is None or changed.meta is None:
            if (value.meta is None) != (changed.meta is None):
                return None
            continue
        if len(value.meta.shape) != len(changed.meta.shape):
            return None
        if value.meta.shape != changed.meta.shape:
            shapes[index] = changed.meta.shape
        if value.meta.dtype != changed.meta.dtype:
            dtypes[index] = changed.meta.dtype
    return Delta(texts, shapes, dtypes)


def write_record(record: ModelRecord, path: Path) -> None:
    """Write a record in one step: whatever happens, the file is whole or absent."""
    import zstandard

    text = json.dumps({"format": FORMAT, **_record_json(record)}, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_bytes(zstandard.ZstdCompressor(level=9).compress(text.encode()))
    scratch.replace(path)


def read_record(path: Path) -> ModelRecord:
    """Read a record; BadInput if it is not one."""
    import zstandard

    try:
        values = json.loads(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
        if values.get("format") != FORMAT:
            raise BadInput("a record of another version", path=path, expected=f"format {FORMAT}")
        return _record_from(values)
    except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"not a model record: {error}", path=path) from None


def _record_json(record: ModelRecord) -> dict[str, Any]:
    return {
        "library": record.library,
        "name": record.name,
        "class_name": record.class_name,
        "tag": record.tag,
        "failure": record.failure,
        "parameters": record.parameters,
        "measured": record.measured,
        "seconds": record.seconds,
        "graphs": [_traced_json(graph) for graph in record.graphs],
    }


def _record_from(values: dict[str, Any]) -> ModelRecord:
    values = {key: value for key, value in values.items() if key != "format"}
    return ModelRecord(**{**values, "graphs": tuple(_traced_from(graph) for graph in values["graphs"])})


def _traced_json(graph: Traced) -> dict[str, Any]:
    def sized(change: tuple[int, Delta] | None) -> Any:
        return None if change is None else [change[0], _delta_json(change[1])]

    return {
        "listing": _listing_json(graph.listing),
        "sizes": graph.sizes,
        "float16": None if graph.float16 is None else _delta_json(graph.float16),
        "batch": sized(graph.batch),
        "sequence": sized(graph.sequence),
        "kernels": graph.kernels,
    }


def _traced_from(values: dict[str, Any]) -> Traced:
    def sized(change: Any) -> tuple[int, Delta] | None:
        return None if change is None else (change[0], _delta_from(change[1]))

    kernels = values["kernels"]
    return Traced(
        listing=_listing_from(values["listing"]),
        sizes=(values["sizes"][0], values["sizes"][1]),
        float16=None if values["float16"] is None else _delta_from(values["float16"]),
        batch=sized(values["batch"]),
        sequence=sized(values["sequence"]),
        kernels=None if kernels is None else tuple(tuple(kernel) for kernel in kernels),
    )


def _delta_json(delta: Delta) -> dict[str, Any]:
    return {
        "texts": list(delta.texts.items()),
        "shapes": list(delta.shapes.items()),
        "dtypes": list(delta.dtypes.items()),
    }


def _delta_from(values: dict[str, Any]) -> Delta:
    return Delta(
        dict(values["texts"]),
        {index: tuple(shape) for index, shape in values["shapes"]},
        dict(values["dtypes"]),
    )


_META_FIELDS = ("shape", "dtype", "device", "original_name", "mean", "std", "data", "min_val", "max_val")


def _listing_json(listing: Listing) -> dict[str, Any]:
    def meta(value: Value) -> Any:
        return None if value.meta is None else [getattr(value.meta, name) for name in _META_FIELDS]

    return {
        "name": listing.name,
        "values": [[value.name, value.kind, meta(value)] for value in listing.values],
        "statements": [[s.op, s.text, s.reads, s.result, s.effect] for s in listing.statements],
        "outputs": listing.outputs,
    }


def _listing_from(values: dict[str, Any]) -> Listing:
    def meta(name: str, fields: Any) -> TensorMeta | None:
        if fields is None:
            return None
        known = dict(zip(_META_FIELDS, fields, strict=True))
        known["shape"] = tuple(known["shape"])
        known["data"] = None if known["data"] is None else tuple(known["data"])
        return TensorMeta(name=name, **known)

    return Listing(
        name=values["name"],
        values=tuple(Value(name, kind, meta(name, fields)) for name, kind, fields in values["values"]),
        statements=tuple(
            Statement(op, text, tuple(reads), result, effect)
            for op, text, reads, result, effect in values["statements"]
        ),
        outputs=tuple(values["outputs"]),
    )


def apply_delta(listing: Listing, delta: Delta, dtype: str | None = None) -> Listing:
    """The listing as the other capture had it; `dtype` replaces float16 where the change leads there."""
    values = list(listing.values)
    for index, shape in delta.shapes.items():
        values[index] = _with(values[index], shape=shape)
    for index, name in delta.dtypes.items():
        values[index] = _with(values[index], dtype=dtype if dtype and name == "float16" else name)
    statements = list(listing.statements)
    for index, text in delta.texts.items():
        text = text.replace("torch.float16", f"torch.{dtype}") if dtype else text
        statements[index] = replace(statements[index], text=text)
    return replace(listing, values=tuple(values), statements=tuple(statements))


def _with(value: Value, **changes: Any) -> Value:
    return value if value.meta is None else replace(value, meta=replace(value.meta, **changes))
