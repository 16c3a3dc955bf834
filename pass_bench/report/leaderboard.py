"""What a submission is worth: the numbers of the leaderboard."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pass_bench.report.load import BASELINES, GraphName, Row, Submission
from pass_bench.results.verdict import Verdict
from pass_bench.score.es import DEFAULT, ScoreSettings, geometric_mean
from pass_bench.score.summary import ScoreSummary, fast_shares, mean_score, summarize

INDUCTOR = "inductor"


@dataclass(frozen=True, slots=True)
class AgainstInductor:
    """A submission against torch.compile, over the graphs that both got right in the same store."""

    graphs: int
    speedup: float
    fast: Mapping[float, float]


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the leaderboard.

    `score` (AS) and `es` are geometric means over samples; `speedup` (G-Mean) is one over all correct graphs;
    `fast` are shares of the scored graphs. `by_sample` holds the scores of every sample.
    """

    submission: Submission
    graphs: int
    judged: int
    correct: int
    score: float | None
    es: Mapping[int, float]
    speedup: float | None
    fast: Mapping[float, float]
    inductor: AgainstInductor | None
    verdicts: Mapping[str, int]
    weak: int
    noisy: int
    left_out: Mapping[str, int]
    by_sample: Mapping[str, ScoreSummary]

    @property
    def correct_share(self) -> float | None:
        """The share of judged graphs that are right at t = -5."""
        return self.correct / self.judged if self.judged else None

    @property
    def baseline(self) -> bool:
        """Whether no passes were at work."""
        return self.submission.compiler in BASELINES


def standings(
    submissions: Sequence[Submission],
    settings: ScoreSettings = DEFAULT,
    weights: Mapping[int, float] | None = None,
) -> list[Standing]:
    """The leaderboard, best score first, what has none last."""
    board = []
    for submission in submissions:
        baseline = submission.compiler in BASELINES
        inductor = None if baseline else inductor_of(submission, submissions)
        board.append(_standing(submission, inductor, settings, weights))
    return sorted(board, key=lambda x: (x.score is None, -(x.score or 0), x.submission.title))


def inductor_of(submission: Submission, submissions: Iterable[Submission]) -> Submission | None:
    """Inductor as measured in the same store, if the submission is not Inductor itself."""
    if submission.compiler == INDUCTOR:
        return None
    same = [s for s in submissions if s.source == submission.source and s.compiler == INDUCTOR]
    return next((s for s in same if s.label == submission.label), same[0] if same else None)


def _standing(
    submission: Submission,
    inductor: Submission | None,
    settings: ScoreSettings,
    weights: Mapping[int, float] | None,
) -> Standing:
    by_sample = {
        sample: summarize((row.outcome for row in rows), settings, weights)
        for sample, rows in submission.samples().items()
    }
    speeds = [row.speed.speedup for row in submission.rows if row.speed is not None]
    scored = sum(summary.scored for summary in by_sample.values())
    left_out: Counter[str] = Counter()
    for summary in by_sample.values():
        left_out.update(summary.left_out)
    return Standing(
        submission=submission,
        graphs=len(submission.rows),
        judged=sum(summary.judged for summary in by_sample.values()),
        correct=sum(summary.correct for summary in by_sample.values()),
        score=mean_score(summary.score for summary in by_sample.values()),
        es=_mean_curve([summary.es for summary in by_sample.values() if summary.es]),
        speedup=geometric_mean(speeds) if speeds else None,
        fast=fast_shares(speeds, scored),
        inductor=None if inductor is None else against_inductor(submission.rows, inductor.rows),
        verdicts=dict(Counter(row.verdict for row in submission.rows).most_common()),
        weak=sum(row.weak for row in submission.rows),
        noisy=sum(row.noisy for row in submission.rows),
        left_out=dict(left_out),
        by_sample=by_sample,
    )


def _mean_curve(curves: Sequence[Mapping[int, float]]) -> dict[int, float]:
    if not curves:
        return {}
    return {t: math.exp(math.fsum(math.log(curve[t]) for curve in curves) / len(curves)) for t in curves[0]}


def against_inductor(rows: Iterable[Row], inductor: Iterable[Row]) -> AgainstInductor | None:
    """Speedups over Inductor; None where no graph has both a correct Inductor run and a scored own one.

    The two were timed against eager in turns, each in a process of its own, so their ratio is that of two
    speedups. fast_p counts a graph that the submission got wrong as not fast.
    """
    theirs = inductor_speeds(inductor)
    pairs = [(row, theirs[row.name]) for row in rows if row.name in theirs and row.outcome.scored]
    ratios = [row.speed.speedup / other for row, other in pairs if row.speed is not None]
    if not pairs or not ratios:
        return None
    return AgainstInductor(len(pairs), geometric_mean(ratios), fast_shares(ratios, len(pairs)))


def inductor_speeds(inductor: Iterable[Row]) -> dict[GraphName, float]:
    """Inductor's speedup over eager on the graphs that it got right."""
    return {row.name: row.speed.speedup for row in inductor if row.speed is not None}


def failure_classes(standing: Standing) -> list[tuple[str, int]]:
    """Verdicts with their counts, in the order of the verdicts' definition."""
    return [(v.value, standing.verdicts[v.value]) for v in Verdict if standing.verdicts.get(v.value)]
