"""S(t) and ES(t), graph by graph and in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pass_bench.errors import BadInput
from pass_bench.score.outcome import ErrorClass, Outcome

Interpretation = Literal["default", "mismatch_extended"]

_TOLERATED_FROM: dict[str, dict[ErrorClass, int]] = {
    "default": {
        ErrorClass.ACCURACY: 1,
        ErrorClass.MISMATCH: 3,
        ErrorClass.RUNTIME: 3,
        ErrorClass.COMPILE: 3,
    },
    "mismatch_extended": {
        ErrorClass.ACCURACY: 1,
        ErrorClass.MISMATCH: 2,
        ErrorClass.RUNTIME: 3,
        ErrorClass.COMPILE: 4,
    },
}


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """How speedups become scores.

    `penalty` is p: a slower graph counts as s^(p+1). `floor` is b: what an error counts as.
    """

    penalty: float = 0.0
    floor: float = 0.1
    interpretation: Interpretation = "default"

    def __post_init__(self) -> None:
        if not (self.penalty >= 0 and math.isfinite(self.penalty)):
            raise BadInput(f"penalty {self.penalty}", expected="a number >= 0")
        if not 0 < self.floor <= 1:
            raise BadInput(f"score of a failure {self.floor}", expected="a number above 0, at most 1")
        if self.interpretation not in _TOLERATED_FROM:
            raise BadInput(f"interpretation {self.interpretation}", expected=" or ".join(_TOLERATED_FROM))

    @property
    def levels(self) -> range:
        """The levels t that are scored: -10 to one above the number of error classes."""
        return range(-10, 5) if self.interpretation == "default" else range(-10, 6)

    def tolerated(self, error: ErrorClass, t: int) -> bool:
        """Whether an error counts as 1 instead of the floor at level t."""
        start = _TOLERATED_FROM[self.interpretation].get(error)
        return start is not None and t >= start


DEFAULT = ScoreSettings()


def scored(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes that enter the means; raises ValueError if there are none."""
    kept = [outcome for outcome in outcomes if outcome.scored]
    if not kept:
        raise ValueError("no graph to score")
    return kept


def rectified(speedup: float, penalty: float) -> float:
    """s where s >= 1, else s^(p+1)."""
    return speedup if speedup >= 1 else speedup ** (penalty + 1)


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm; 1 for no values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values)) if values else 1.0


def s_of_t(outcomes: Iterable[Outcome], t: int, settings: ScoreSettings = DEFAULT) -> float:
    """S(t): geometric mean of the rectified speedup where all outputs pass at t, of the floor elsewhere."""
    return geometric_mean(
        [
            rectified(_speed(o), settings.penalty) if o.correct_at(t) else settings.floor
            for o in scored(outcomes)
        ]
    )


def es_of_t(outcomes: Iterable[Outcome], t: int, settings: ScoreSettings = DEFAULT) -> float:
    """ES(t): as S(t) below t = 1; from there on correctness is frozen and error classes are tolerated."""
    return geometric_mean([_error_aware(o, t, settings) for o in scored(outcomes)])


def _error_aware(outcome: Outcome, t: int, settings: ScoreSettings) -> float:
    if outcome.correct_at(min(t, 1)):
        return rectified(_speed(outcome), settings.penalty)
    if t >= 1 and settings.tolerated(outcome.error_class, t):
        return 1.0
    return settings.floor


def _speed(outcome: Outcome) -> float:
    assert outcome.speedup is not None  # what `scored` keeps and is correct somewhere has one
    return outcome.speedup


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """The terms of ES(t) = alpha^lambda * beta^(lambda * eta * p) * gamma^(1 - lambda).

    `alpha`, `beta`: geometric means of the correct and of the slower-than-eager speedups; `correct`: share of
    correct graphs (lambda); `slow`: share of slow ones among them (eta); `gamma`: what an error counts as.
    """

    alpha: float
    beta: float
    correct: float
    slow: float
    gamma: float
    penalty: float

    @property
    def value(self) -> float:
        """ES(t)."""
        return float(
            self.alpha**self.correct
            * self.beta ** (self.correct * self.slow * self.penalty)
            * self.gamma ** (1 - self.correct)
        )


def closed_form(outcomes: Iterable[Outcome], t: int, settings: ScoreSettings = DEFAULT) -> ClosedForm:
    """The closed form of ES(t); its value equals `es_of_t`."""
    kept = scored(outcomes)
    speeds = [_speed(o) for o in kept if o.correct_at(min(t, 1))]
    slow = [speed for speed in speeds if speed < 1]
    errors = [o.error_class for o in kept if not o.correct_at(min(t, 1))]
    untolerated = [error for error in errors if t < 1 or not settings.tolerated(error, t)]
    return ClosedForm(
        alpha=geometric_mean(speeds),
        beta=geometric_mean(slow),
        correct=len(speeds) / len(kept),
        slow=len(slow) / len(speeds) if speeds else 0.0,
        gamma=settings.floor ** (len(untolerated) / len(errors)) if errors else 1.0,
        penalty=settings.penalty,
    )
