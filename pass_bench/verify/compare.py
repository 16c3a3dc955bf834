"""Compares what a compiled graph gave with what eager gave, tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from pass_bench.results.records import TensorReport, WorstElement
from pass_bench.score.tolerance import BASELINE_T, LEVELS, TOLERANT_DTYPES, atol_rtol

TOLERANT = tuple(getattr(torch, name) for name in TOLERANT_DTYPES)
CHUNK = 1 << 22  # elements; bounds the float64 copies made of one tensor
Mismatch = Literal["", "shape", "type"]


@dataclass(frozen=True)
class Compared:
    """The reports of all outputs; `passes_from` is the smallest t at which every one passes.

    `mismatch` says that something has another shape or type than eager's, `reason` in words which.
    """

    reports: tuple[TensorReport, ...]
    passes_from: int | None
    mismatch: Mismatch = ""
    reason: str = ""


def dtype_name(dtype: torch.dtype) -> str:
    """Return "float16" for torch.float16."""
    return str(dtype).removeprefix("torch.")


def tolerance(dtype: torch.dtype, t: int, compat: bool = False) -> tuple[float, float]:
    """Return (atol, rtol) at level t; `compat` rounds both to the three digits of the published log keys."""
    return atol_rtol(dtype_name(dtype), t, rounded=compat)


def compare_outputs(
    actual: Sequence[object],
    expected: Sequence[object],
    names: Sequence[str],
    *,
    exact: Sequence[object] | None = None,
    compat: bool = False,
    enough: int | None = None,
    slack: Sequence[float] = (),
) -> Compared:
    """Compare lists of tensors and plain values, place by place; `exact` are eager's in float64.

    Shapes and dtypes come first: nothing is broadcast or promoted. Never raises for a wrong value. Where all
    pass at level `enough`, that is said and nothing more is found out. `slack` is added to the absolute
    tolerance of each: how far two runs of eager may be apart where it is no function of its inputs.
    """
    slack = slack or (0.0,) * len(expected)
    if enough is not None and not compat and _all_pass(actual, expected, enough, slack):
        return Compared((), enough)
    if len(actual) != len(expected):
        reason = f"{len(actual)} outputs, eager has {len(expected)}"
        return Compared((), None, "type", reason)
    reports = []
    mismatch: Mismatch = ""
    reason = ""
    for place, (one, other, name) in enumerate(zip(actual, expected, names, strict=True)):
        precise = exact[place] if exact is not None else None
        kind, words = mismatch_of(one, other)
        if kind and not mismatch:
            mismatch, reason = kind, f"{name}: {words}"
        reports.append(_report(one, other, name, kind, precise, compat, slack[place]))
    levels = [report.passes_from for report in reports]
    passes_from = None if None in levels else max((t for t in levels if t is not None), default=LEVELS[0])
    return Compared(tuple(reports), passes_from, mismatch, reason)


def _all_pass(
    actual: Sequence[object], expected: Sequence[object], level: int, slack: Sequence[float]
) -> bool:
    """Whether all are tensors that pass at a level, none of them with NaN or inf."""
    if len(actual) != len(expected):
        return False
    for one, other, more in zip(actual, expected, slack, strict=True):
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or one.is_meta:
            return False
        if mismatch_of(one, other)[0] or not _passes_at(one, other, level, more):
            return False
    return True


def _passes_at(actual: torch.Tensor, expected: torch.Tensor, level: int, slack: float) -> bool:
    if expected.dtype not in TOLERANT:
        return torch.equal(actual, expected)
    atol, rtol = tolerance(expected.dtype, level)
    left, right = actual.detach().reshape(-1), expected.detach().reshape(-1)
    for start in range(0, right.numel(), CHUNK):
        one, other = left[start : start + CHUNK].double(), right[start : start + CHUNK].double()
        allowed = other.abs().mul_(rtol).add_(atol + slack)
        difference = one.sub_(other).abs_()
        if not bool((difference <= allowed.nan_to_num_(0.0, posinf=0.0)).all()):
            return False
    return True


def mismatch_of(actual: object, expected: object) -> tuple[Mismatch, str]:
    """Say whether two outputs can be compared at all: ("", "") if they can."""
    if isinstance(expected, torch.Tensor) != isinstance(actual, torch.Tensor):
        return "type", f"{kind_name(actual)}, eager has {kind_name(expected)}"
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        if actual.shape != expected.shape:
            return "shape", f"shape {list(actual.shape)}, eager has {list(expected.shape)}"
        if actual.dtype != expected.dtype:
            return "type", f"dtype {dtype_name(actual.dtype)}, eager has {dtype_name(expected.dtype)}"
        return "", ""
    if type(actual) is not type(expected):
        return "type", f"{kind_name(actual)}, eager has {kind_name(expected)}"
    return "", ""


def kind_name(value: object) -> str:
    """Return "a float16 tensor of shape [2, 3]", "an int", "None"."""
    if isinstance(value, torch.Tensor):
        return f"a {dtype_name(value.dtype)} tensor of shape {list(value.shape)}"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _report(
    actual: object,
    expected: object,
    name: str,
    mismatch: Mismatch,
    exact: object,
    compat: bool,
    slack: float,
) -> TensorReport:
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor) and not mismatch:
        return compare_tensors(actual, expected, name, exact=exact, compat=compat, slack=slack)
    of_expected = (
        dtype_name(expected.dtype) if isinstance(expected, torch.Tensor) else type(expected).__name__
    )
    of_actual = dtype_name(actual.dtype) if isinstance(actual, torch.Tensor) else type(actual).__name__
    shape = tuple(expected.shape) if isinstance(expected, torch.Tensor) else ()
    passes = None
    if not mismatch and same_value(actual, expected):
        passes = LEVELS[0]
    worst = None
    if not mismatch and passes is None:
        worst = WorstElement(
            index=(), expected=repr(expected)[:200], actual=repr(actual)[:200], tolerance=0.0
        )
    return TensorReport(
        where=name, dtype=of_expected, compiled_dtype=of_actual, shape=shape, passes_from=passes, worst=worst
    )


def same_value(actual: object, expected: object) -> bool:
    """Whether two plain values are equal; NaN equals NaN."""
    if isinstance(actual, float) and isinstance(expected, float) and math.isnan(actual):
        return math.isnan(expected)
    return bool(actual == expected)


def compare_tensors(
    actual: torch.Tensor,
    expected: torch.Tensor,
    name: str = "output[0]",
    *,
    exact: object = None,
    compat: bool = False,
    slack: float = 0.0,
) -> TensorReport:
    """Compare two tensors of the same shape and dtype on one device; differences are computed in float64.

    An element passes at t if |actual - expected| <= atol + rtol * |expected|; NaN and inf pass where eager
    has the same. `slack` is added to atol where the dtype has a tolerance. Under `compat` the tolerance
    scales with |actual| and NaN never passes.
    """
    left, right = actual.detach().reshape(-1), expected.detach().reshape(-1)
    tolerant = expected.dtype in TOLERANT
    level = LEVELS[0]
    total = largest = worst_ratio = 0.0
    finite_count = 0
    nonfinite = False
    worst_at: int | None = None
    for start in range(0, right.numel(), CHUNK):
        chunk = _Chunk(left[start : start + CHUNK], right[start : start + CHUNK], compat)
        nonfinite = nonfinite or chunk.nonfinite
        largest = max(largest, chunk.largest)
        total += chunk.total
        finite_count += chunk.count
        if tolerant:
            while level <= LEVELS[-1] and not chunk.passes(*tolerance(expected.dtype, level, compat), slack):
                level += 1
            ratio, place = chunk.worst(*tolerance(expected.dtype, BASELINE_T, compat), slack)
        else:
            if not chunk.passes(0.0, 0.0, 0.0):
                level = LEVELS[-1] + 1
            ratio, place = chunk.worst(0.0, 0.0, 0.0)
        if ratio > worst_ratio:
            worst_ratio, worst_at = ratio, start + place
    worst = None
    if worst_at is not None:
        worst = _worst_element(left, right, worst_at, tuple(expected.shape), tolerant, compat, slack)
    error, eager_error = None, None
    if isinstance(exact, torch.Tensor) and exact.shape == expected.shape and tolerant:
        error, eager_error = largest_error(left, exact), largest_error(right, exact)
    return TensorReport(
        where=name,
        dtype=dtype_name(expected.dtype),
        compiled_dtype=dtype_name(actual.dtype),
        shape=tuple(expected.shape),
        passes_from=level if level <= LEVELS[-1] else None,
        max_diff=largest,
        mean_diff=total / finite_count if finite_count else 0.0,
        nonfinite=nonfinite,
        worst=worst,
        float64_error=error,
        eager_float64_error=eager_error,
    )


class _Chunk:
    """Differences of one stretch of two flat tensors, in float64 (complex128 for complex)."""

    def __init__(self, actual: torch.Tensor, expected: torch.Tensor, compat: bool):
        integer = not (expected.is_floating_point() or expected.is_complex())
        kind = torch.complex128 if expected.is_complex() else torch.float64
        left, right = actual.to(kind), expected.to(kind)
        # A 64-bit integer has more digits than a float64, so equality is asked before the conversion.
        same = actual == expected if integer else left == right
        if not compat:
            same |= left.isnan() & right.isnan()
        difference = (left - right).abs()
        difference = torch.where(same, torch.zeros_like(difference), difference)
        if integer:
            difference = torch.where(~same & (difference == 0), torch.ones_like(difference), difference)
        finite = difference.isfinite()
        self.nonfinite = bool((~finite).any()) or bool((left.isfinite() != right.isfinite()).any())
        self._bad = ~finite
        self._difference = difference
        self._scale = (left if compat else right).abs().nan_to_num(0.0, posinf=0.0)
        kept = difference[finite]
        self.count = int(kept.numel())
        self.largest = float(kept.max()) if self.count else 0.0
        self.total = float(kept.sum()) if self.count else 0.0

    def passes(self, atol: float, rtol: float, slack: float) -> bool:
        return bool((~self._bad & (self._difference <= atol + slack + rtol * self._scale)).all())

    def worst(self, atol: float, rtol: float, slack: float) -> tuple[float, int]:
        """Return the largest ratio of difference to tolerance, and where."""
        if self._difference.numel() == 0:
            return 0.0, 0
        ratio = self._difference / (atol + slack + rtol * self._scale).clamp_min(1e-300)
        ratio = torch.where(self._bad, torch.full_like(ratio, math.inf), ratio)
        place = int(ratio.argmax())
        return float(ratio[place]), place


def _worst_element(
    actual: torch.Tensor,
    expected: torch.Tensor,
    place: int,
    shape: tuple[int, ...],
    tolerant: bool,
    compat: bool,
    slack: float,
) -> WorstElement:
    index = []
    rest = place
    for size in reversed(shape):
        index.append(rest % size)
        rest //= size
    one, other = actual[place].item(), expected[place].item()
    allowed = 0.0
    if tolerant:
        atol, rtol = tolerance(expected.dtype, BASELINE_T, compat)
        scale = abs(one if compat else other)
        allowed = atol + slack + (rtol * scale if math.isfinite(scale) else 0.0)
    return WorstElement(
        index=tuple(reversed(index)), expected=_number(other), actual=_number(one), tolerance=allowed
    )


def _number(value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return repr(value)
    return float(value) if not isinstance(value, int) or abs(value) < 2**53 else repr(value)


def largest_error(value: torch.Tensor, exact: torch.Tensor) -> float | None:
    """Return max |value - exact| over the elements where both are finite, None if there is none."""
    largest: float | None = None
    flat, precise = value.reshape(-1), exact.reshape(-1)
    for start in range(0, flat.numel(), CHUNK):
        error = (flat[start : start + CHUNK].double() - precise[start : start + CHUNK].double()).abs()
        error = error[error.isfinite()]
        if error.numel():
            largest = max(largest or 0.0, float(error.max()))
    return largest


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits (NaN equals the same NaN)."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.numel() == 0:
        return True
    left, right = one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8)
    words = left.numel() // 8 * 8
    if left.storage_offset() % 8 == 0 and right.storage_offset() % 8 == 0:  # seven times as quick
        if not torch.equal(left[:words].view(torch.int64), right[:words].view(torch.int64)):
            return False
        left, right = left[words:], right[words:]
    return torch.equal(left, right)


def changed_inputs(before: Sequence[object], after: Sequence[object]) -> tuple[int, ...]:
    """Return the positions of the tensors whose bits differ."""
    return tuple(
        place
        for place, (one, other) in enumerate(zip(before, after, strict=True))
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and not same_bits(one, other)
    )
