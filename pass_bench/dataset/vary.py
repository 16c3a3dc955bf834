"""The same part at another batch size, sequence length or float type, from how the captures differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.canonical import NUMBER
from pass_bench.dataset.listing import Listing, Value
from pass_bench.dataset.store import Delta, Traced, apply_delta

DTYPES = ("float32", "float16", "bfloat16")
ORIGINAL = 9
BATCHES = (1, 2, 4, 16, 32, 64, 128, 256, 512)
PAIRS = ((1, 16), (2, 32), (4, 64), (16, 32), (32, 16), (1, 128), (2, 256), (1, 512), (8, 128))
"""What the dim folders 0 to 8 stand for: batch sizes, or (batch, sequence) for models with a sequence."""

_FLOAT32 = re.compile(r"\btorch\.float32\b|\btorch\.float\b")
_FULL_PRECISION = (".float()", "torch.float32", "torch.double", "torch.float64")


def resized(graph: Traced, dim: int) -> Listing | None:
    """The listing in the sizes of a dim folder; None where the captures do not say how sizes follow."""
    return graph.listing if dim == ORIGINAL else at_sizes(graph, *sizes_of(graph, dim))


def sizes_of(graph: Traced, dim: int) -> tuple[int, int]:
    """Batch and sequence size in a dim folder."""
    if dim == ORIGINAL:
        return graph.sizes
    return PAIRS[dim] if graph.sequence is not None else (BATCHES[dim], graph.sizes[1])


def at_sizes(graph: Traced, batch: int, sequence: int) -> Listing | None:
    """The listing at a batch and sequence size.

    Every number that differed between captures is taken to be linear in the size that was changed, or the
    product of both where it followed both.
    """
    if graph.batch is None and batch != graph.sizes[0]:
        return None
    if graph.sequence is None and sequence != graph.sizes[1]:
        return None
    scale = _Scale(graph, batch, sequence)
    listing = graph.listing
    values = list(listing.values)
    for index in {*_shapes(graph.batch), *_shapes(graph.sequence)}:
        meta = values[index].meta
        if meta is None:
            return None
        shape = scale.numbers(meta.shape, scale.batch_shape(index), scale.sequence_shape(index))
        if shape is None:
            return None
        values[index] = replace(values[index], meta=reshaped(meta, shape))
    statements = list(listing.statements)
    for index in {*_texts(graph.batch), *_texts(graph.sequence)}:
        text = scale.text(index)
        if text is None:
            return None
        statements[index] = replace(statements[index], text=text)
    return replace(listing, values=tuple(values), statements=tuple(statements))


def _shapes(change: tuple[int, Delta] | None) -> dict[int, tuple[int, ...]]:
    return {} if change is None else dict(change[1].shapes)


def _texts(change: tuple[int, Delta] | None) -> dict[int, str]:
    return {} if change is None else dict(change[1].texts)


def _steps(change: tuple[int, Delta] | None, wanted: int, captured: int) -> tuple[int, int] | None:
    return None if change is None else (wanted - captured, change[0] - captured)


class _Scale:
    """Evaluates numbers at the wanted sizes."""

    def __init__(self, graph: Traced, batch: int, sequence: int):
        self.graph = graph
        self.by_batch = _steps(graph.batch, batch, graph.sizes[0])
        self.by_sequence = _steps(graph.sequence, sequence, graph.sizes[1])

    def batch_shape(self, index: int) -> tuple[int, ...] | None:
        return _shapes(self.graph.batch).get(index)

    def sequence_shape(self, index: int) -> tuple[int, ...] | None:
        return _shapes(self.graph.sequence).get(index)

    def number(self, base: int, by_batch: int, by_sequence: int) -> int | None:
        steps = []
        for other, change in ((by_batch, self.by_batch), (by_sequence, self.by_sequence)):
            if other == base or change is None:
                continue
            wanted, measured = change
            if (other - base) * wanted % measured:
                return None
            steps.append((other - base) * wanted // measured)
        if len(steps) < 2:
            return base + sum(steps)
        scaled = (base + steps[0]) * (base + steps[1])
        return scaled // base if base > 0 and scaled % base == 0 else None

    def numbers(
        self, base: Sequence[int], by_batch: Sequence[int] | None, by_sequence: Sequence[int] | None
    ) -> tuple[int, ...] | None:
        by_batch, by_sequence = by_batch or base, by_sequence or base
        if not len(base) == len(by_batch) == len(by_sequence):
            return None
        found = [self.number(*sizes) for sizes in zip(base, by_batch, by_sequence, strict=True)]
        known = tuple(n for n in found if n is not None)
        return known if len(known) == len(found) and all(n >= 0 for n in known) else None

    def text(self, index: int) -> str | None:
        base = self.graph.listing.statements[index].text
        others = [_texts(change).get(index, base) for change in (self.graph.batch, self.graph.sequence)]
        numbers = [NUMBER.findall(text) for text in (base, *others)]
        if (
            len({len(found) for found in numbers}) != 1
            or len({NUMBER.sub("#", t) for t in (base, *others)}) != 1
        ):
            return None
        new: list[str] = []
        for one, two, three in zip(*numbers, strict=True):
            if one == two == three:
                new.append(one)
                continue
            if not (one.isdigit() and two.isdigit() and three.isdigit()):
                return None
            number = self.number(int(one), int(two), int(three))
            if number is None or number < 0:
                return None
            new.append(str(number))
        parts = iter(new)
        return NUMBER.sub(lambda _: next(parts), base)


def reshaped(meta: TensorMeta, shape: tuple[int, ...]) -> TensorMeta:
    """The meta in another shape; a list of values becomes a range, since their number changes."""
    changed = replace(meta, shape=shape)
    if meta.data is None or len(meta.data) == changed.numel:
        return changed
    if meta.is_integer and meta.data:
        low, high = min(meta.data), max(meta.data)  # type: ignore[type-var]
        return replace(changed, data=None, min_val=low, max_val=high)
    if meta.is_float and meta.mean is None:
        return replace(changed, data=None, mean=0.0, std=1.0)
    return replace(changed, data=None)


def in_dtype(graph: Traced, listing: Listing, dtype: str) -> Listing | None:
    """The listing in another float type.

    Follows the capture in half precision if there is one; else all float32 values are cast, which is refused
    where the code itself speaks of full precision.
    """
    if dtype == "float32":
        return listing
    if graph.float16 is not None:
        texts: dict[int, str] = {}
        for index, half in graph.float16.texts.items():
            base, now = graph.listing.statements[index].text, listing.statements[index].text
            text = _transplant(base, half, now)
            if text is None:
                return None
            texts[index] = _bounds(text, dtype)
        return apply_delta(listing, Delta(texts, {}, graph.float16.dtypes), dtype)
    if any(word in s.text for s in listing.statements for word in _FULL_PRECISION):
        return None
    return replace(listing, values=tuple(_cast(value, dtype) for value in listing.values))


def _cast(value: Value, dtype: str) -> Value:
    if value.meta is None or value.meta.dtype != "float32":
        return value
    return replace(value, meta=replace(value.meta, dtype=dtype))


def _transplant(base: str, half: str, now: str) -> str | None:
    """`half` with the numbers in which `now` differs from `base`."""
    if base == now:
        return half
    numbers = [NUMBER.findall(text) for text in (base, half, now)]
    if len({len(found) for found in numbers}) != 1:
        return None
    parts = iter([h if b == n else n for b, h, n in zip(*numbers, strict=True)])
    return NUMBER.sub(lambda _: next(parts), half)


def _bounds(text: str, dtype: str) -> str:
    """The least number of float16, which masks are filled with, as the other type has it."""
    return text.replace("65504.0", "3.3895313892515355e+38") if dtype == "bfloat16" else text
