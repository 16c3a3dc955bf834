"""What a set of graphs scores, in numbers that a person or a leaderboard wants to see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pass_bench.results.verdict import Verdict
from pass_bench.score.aggregate import aggregated_score
from pass_bench.score.es import DEFAULT, ScoreSettings, es_of_t, geometric_mean, s_of_t
from pass_bench.score.outcome import Outcome
from pass_bench.score.tolerance import BASELINE_T

FAST = (1.0, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """The scores of one sample, or of any set of graphs.

    `judged` graphs have a verdict that counts; `correct` of them pass at t = -5. `scored` of them also have a
    time that is a speed; the means and `fast` (share of scored graphs that are correct and at least p times
    as fast as eager, by p) are over those, and None where there are none. `left_out` counts what is in no
    mean, by reason.
    """

    graphs: int
    judged: int
    correct: int
    scored: int
    score: float | None
    es: Mapping[int, float]
    s: Mapping[int, float]
    speedup: float | None
    fast: Mapping[float, float]
    verdicts: Mapping[str, int]
    left_out: Mapping[str, int]

    @property
    def correct_share(self) -> float | None:
        """The share of judged graphs that pass at t = -5."""
        return self.correct / self.judged if self.judged else None

    @property
    def note(self) -> str:
        """What a reader of the score must know about graphs that are in no mean; empty if all are."""
        parts = [f"{count} {reason}" for reason, count in self.left_out.items()]
        return f"not in the score: {', '.join(parts)}" if parts else ""


def summarize(
    outcomes: Iterable[Outcome],
    settings: ScoreSettings = DEFAULT,
    weights: Mapping[int, float] | None = None,
) -> ScoreSummary:
    """Score a set of graphs together."""
    outcomes = list(outcomes)
    judged = [outcome for outcome in outcomes if outcome.verdict.scored]
    kept = [outcome for outcome in judged if outcome.scored]
    right = [outcome for outcome in judged if outcome.correct_at(BASELINE_T)]
    speeds = [o.speedup for o in kept if o.correct_at(BASELINE_T) and o.speedup is not None]
    return ScoreSummary(
        graphs=len(outcomes),
        judged=len(judged),
        correct=len(right),
        scored=len(kept),
        score=aggregated_score(kept, settings, weights) if kept else None,
        es={t: es_of_t(kept, t, settings) for t in settings.levels} if kept else {},
        s={t: s_of_t(kept, t, settings) for t in settings.levels} if kept else {},
        speedup=geometric_mean(speeds) if speeds else None,
        fast=fast_shares(speeds, len(kept)),
        verdicts=dict(Counter(outcome.verdict.value for outcome in outcomes).most_common()),
        left_out=_left_out(outcomes),
    )


def fast_shares(correct_speedups: Sequence[float], graphs: int) -> dict[float, float]:
    """fast_p: the share of graphs that are correct and at least p times as fast, by p; empty for none."""
    if not graphs:
        return {}
    return {p: sum(speedup >= p for speedup in correct_speedups) / graphs for p in FAST}


def _left_out(outcomes: Iterable[Outcome]) -> dict[str, int]:
    reasons: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.verdict is Verdict.INFRA:
            reasons["infra (ours to fix)"] += 1
        elif not outcome.verdict.scored:
            reasons[outcome.verdict.value] += 1
        elif not outcome.timed:
            reasons["interpreted (verified, but the time is not a speed)"] += 1
        elif not outcome.scored:
            reasons["without a time"] += 1
    return dict(reasons)


def mean_score(scores: Iterable[float | None]) -> float | None:
    """The leaderboard's AS: the geometric mean over the samples that have one."""
    known = [score for score in scores if score is not None]
    if not known:
        return None
    return math.exp(math.fsum(map(math.log, known)) / len(known))
