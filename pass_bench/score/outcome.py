"""What scoring needs to know about one graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from pass_bench.results.records import GraphResult
from pass_bench.results.verdict import Verdict


class ErrorClass(StrEnum):
    """Kinds of errors, by the level from which ES(t) tolerates them."""

    ACCURACY = "accuracy"
    MISMATCH = "mismatch"  # shape, dtype, NaN or inf where eager has none
    RUNTIME = "runtime"  # raised, timed out, or no pass matched
    COMPILE = "compile"
    EAGER = "eager"  # never tolerated
    REJECTED = "rejected"  # never tolerated


_CLASS_OF = {
    Verdict.SHAPE_MISMATCH: ErrorClass.MISMATCH,
    Verdict.TYPE_MISMATCH: ErrorClass.MISMATCH,
    Verdict.RUNTIME_FAIL: ErrorClass.RUNTIME,
    Verdict.TIMEOUT: ErrorClass.RUNTIME,
    Verdict.PASS_MISS: ErrorClass.RUNTIME,
    Verdict.COMPILE_FAIL: ErrorClass.COMPILE,
    Verdict.EAGER_FAIL: ErrorClass.EAGER,
    Verdict.REJECTED: ErrorClass.REJECTED,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One graph as scoring sees it.

    `passes_from` is the smallest t at which all outputs pass, None at no t. `speedup` is None where the time
    is not a speed (interpreted kernels) or there is none. `error_class` is what the graph counts as wherever
    it is not correct.
    """

    verdict: Verdict
    passes_from: int | None
    speedup: float | None
    error_class: ErrorClass
    timed: bool = True

    @property
    def scored(self) -> bool:
        """Whether the graph enters the geometric means: never ours to fail, and its time is a speed."""
        if not self.verdict.scored or not self.timed:
            return False
        return self.speedup is not None or not self.verdict.ran or self.passes_from is None

    def correct_at(self, t: int) -> bool:
        """Whether the graph ran and every output passes at level t."""
        return self.verdict.ran and self.passes_from is not None and self.passes_from <= t


def outcome_of(result: GraphResult) -> Outcome:
    """The outcome of a result.

    A graph whose kernels were interpreted is verified but has no speed: `timed` is False, so that it counts
    for correctness and enters no mean of speedups.
    """
    speedup = result.e2e.speedup if result.e2e is not None and not result.interpreted else None
    if speedup is not None and not (speedup > 0 and math.isfinite(speedup)):
        speedup = None
    ran = result.verdict.ran
    default = ErrorClass.MISMATCH if result.nonfinite else ErrorClass.ACCURACY
    return Outcome(
        verdict=result.verdict,
        passes_from=result.passes_from if ran else None,
        speedup=speedup,
        error_class=_CLASS_OF.get(result.verdict, default),
        timed=not result.interpreted,
    )


def outcome(
    verdict: Verdict, passes_from: int | None = None, speedup: float | None = None, nonfinite: bool = False
) -> Outcome:
    """An outcome from its parts, for logs and tests."""
    default = ErrorClass.MISMATCH if nonfinite else ErrorClass.ACCURACY
    return Outcome(verdict, passes_from if verdict.ran else None, speedup, _CLASS_OF.get(verdict, default))
