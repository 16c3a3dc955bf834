"""weight_meta.py and input_meta.py: parse and write, never import."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pass_bench.data.literals import parse_classes
from pass_bench.data.records import COMPLEX_DTYPES, DTYPES, TensorMeta
from pass_bench.errors import BadInput

CLASS_PREFIX = "Program_weight_tensor_meta_"
_Fields = dict[str, tuple[Any, int]]


def parse_metas(text: str, path: Path) -> tuple[TensorMeta, ...]:
    """The metas of a file in file order; BadInput, with the line, for a field of the wrong kind."""
    return tuple(
        _meta(class_name, line, fields, path) for class_name, line, fields in parse_classes(text, path)
    )


def _meta(class_name: str, line: int, fields: _Fields, path: Path) -> TensorMeta:
    def bad(what: str, key: str, expected: str) -> BadInput:
        at = fields[key][1] if key in fields else line
        return BadInput(f"{class_name}: {what}", path=path, line=at, expected=expected)

    def get(key: str) -> Any:
        return fields[key][0] if key in fields else None

    for key in ("name", "shape", "dtype"):
        if key not in fields:
            raise bad(f"no {key}", key, "name, shape and dtype")
    name, shape, dtype = get("name"), get("shape"), get("dtype")
    if not isinstance(name, str) or not name.isidentifier():
        raise bad("name is not an identifier", "name", 'a string such as "in_0"')
    if not isinstance(shape, list) or not all(_is_int(n) and n >= 0 for n in shape):
        raise bad("shape is not a list of sizes", "shape", "integers >= 0")
    if math.prod(shape) > 2**40:
        raise bad("shape has more than 2^40 elements", "shape", "a tensor that fits in memory")
    dtype = dtype.removeprefix("torch.") if isinstance(dtype, str) else ""
    if dtype not in DTYPES:
        raise bad("dtype is not known", "dtype", 'a string such as "torch.float32"')
    original = get("original_name")
    if original is not None and not isinstance(original, str):
        raise bad("original_name is not a string", "original_name", "a string")
    device = get("device")
    if device is not None and (not isinstance(device, str) or not re.fullmatch(r"[a-z]+(:\d+)?", device)):
        raise bad("device is not known", "device", '"cpu" or "cuda:0"')
    numbers: dict[str, Any] = {}
    for key in ("mean", "std", "min_val", "max_val"):
        value = get(key)
        if value is not None and not isinstance(value, int | float):
            raise bad(f"{key} is not a number", key, "a number or None")
        numbers[key] = value
    if numbers["std"] is not None and numbers["std"] < 0:
        raise bad("std is negative", "std", "a number >= 0")
    low, high = numbers["min_val"], numbers["max_val"]
    if low is not None and high is not None and low > high:
        raise bad("min_val is above max_val", "max_val", "min_val <= max_val")
    meta = TensorMeta(
        name=name,
        shape=tuple(shape),
        dtype=dtype,
        device=device or "cpu",
        original_name=original,
        mean=_float(numbers["mean"]),
        std=_float(numbers["std"]),
        data=_data(get("data"), bad),
        min_val=low,
        max_val=high,
        class_name=class_name,
    )
    if meta.data is not None and len(meta.data) != meta.numel and not drawn_from_range(meta):
        raise bad(f"data has {len(meta.data)} elements", "data", f"{meta.numel} for shape {shape}")
    return meta


def drawn_from_range(meta: TensorMeta) -> bool:
    """Whether the replay draws integers between min_val and max_val, which beats `data`."""
    ints = ("int8", "int16", "int32", "int64")
    return meta.dtype in ints and meta.min_val is not None and meta.max_val is not None


def _data(value: Any, bad: Any) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise bad("data is not a list", "data", "a flat list of numbers or None")
    if not set(map(type, value)) <= {int, float, bool, complex}:
        raise bad("data holds something that is not a number", "data", "a flat list of numbers")
    return tuple(value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _float(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def format_metas(metas: Iterable[TensorMeta]) -> str:
    """The text of a weight_meta.py: fields in the published order, statistics with three decimals."""
    return "\n\n".join(_format_meta(meta) for meta in metas)


def _format_meta(meta: TensorMeta) -> str:
    original = meta.original_name
    class_name = meta.class_name or CLASS_PREFIX + (original or meta.name)
    lines = [f"class {class_name}:", f'    name = "{meta.name}"']
    if original is not None:
        lines.append(f'    original_name = "{original}"')
    lines += [
        f"    shape = [{', '.join(map(str, meta.shape))}]",
        f'    dtype = "torch.{meta.dtype}"',
        f'    device = "{meta.device}"',
        f"    mean = {_statistic(meta.mean)}",
        f"    std = {_statistic(meta.std)}",
    ]
    if meta.data is not None:
        number = repr if meta.dtype in COMPLEX_DTYPES else _number
        lines.append(f"    data = [{', '.join(map(number, meta.data))}]")
    if meta.max_val is not None:
        lines.append(f"    max_val = {_limit(meta.max_val)}")
    if meta.min_val is not None:
        lines.append(f"    min_val = {_limit(meta.min_val)}")
    return "\n".join(lines) + "\n"


def _statistic(value: float | None) -> str:
    if value is None:
        return "None"
    return f"{value:.3f}" if math.isfinite(value) else f'float("{value}")'


def _number(value: Any) -> str:
    """Six decimals, as published data has them, unless that would lose the number."""
    if not isinstance(value, float):
        return repr(value)
    if not math.isfinite(value):
        return f'float("{value}")'
    short = f"{value:.6f}"
    return short if abs(float(short) - value) <= 1e-6 * abs(value) else repr(value)


def _limit(value: Any) -> str:
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f'float("{value}")'
