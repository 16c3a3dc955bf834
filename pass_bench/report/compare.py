"""Two submissions side by side, graph by graph, decided by intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pass_bench.report.load import BASELINES, GraphName, Row, Submission
from pass_bench.score.es import geometric_mean

Change = Literal["better", "same", "worse", "incomparable"]


@dataclass(frozen=True, slots=True)
class GraphChange:
    """What became of one graph from the first submission to the second; `ratio` of their speedups."""

    name: GraphName
    change: Change
    why: str
    ratio: float | None


@dataclass(frozen=True, slots=True)
class ComparedSubmissions:
    """The second submission against the first, over the graphs that both have."""

    first: Submission
    second: Submission
    changes: tuple[GraphChange, ...]
    only_first: int
    only_second: int

    def count(self, change: Change) -> int:
        """How many graphs changed that way."""
        return sum(item.change == change for item in self.changes)

    @property
    def ratio(self) -> float | None:
        """Geometric mean of the speedup ratios, where both are correct and timed."""
        ratios = [item.ratio for item in self.changes if item.ratio is not None]
        return geometric_mean(ratios) if ratios else None

    @property
    def same_environment(self) -> bool:
        """Whether both were measured on one kind of machine with the same versions."""
        return set(self.first.environments) == set(self.second.environments)


def compare(first: Submission, second: Submission) -> ComparedSubmissions:
    """Compare two submissions; graphs that only one of them has are counted, not judged."""
    before = {row.name: row for row in first.rows}
    after = {row.name: row for row in second.rows}
    changes = [_change(before[name], after[name]) for name in after if name in before]
    return ComparedSubmissions(
        first,
        second,
        tuple(changes),
        only_first=len(before.keys() - after.keys()),
        only_second=len(after.keys() - before.keys()),
    )


def _change(before: Row, after: Row) -> GraphChange:
    def says(change: Change, why: str, ratio: float | None = None) -> GraphChange:
        return GraphChange(after.name, change, why, ratio)

    if not (before.outcome.verdict.scored and after.outcome.verdict.scored):
        return says("incomparable", f"{before.verdict} → {after.verdict}")
    if before.correct != after.correct:
        return says("better" if after.correct else "worse", f"{before.verdict} → {after.verdict}")
    if not after.correct:
        return says("same", f"{before.verdict} → {after.verdict}")
    if before.speed is None or after.speed is None:
        return says("incomparable", "correct, but a time is missing or not a speed")
    ratio = after.speed.speedup / before.speed.speedup
    if after.speed.low > before.speed.high:
        return says("better", "intervals apart", ratio)
    if after.speed.high < before.speed.low:
        return says("worse", "intervals apart", ratio)
    return says("same", "intervals overlap", ratio)


def pairs_to_compare(submissions: Sequence[Submission], most: int = 6) -> list[tuple[int, int]]:
    """Which pairs a report shows: all of a few submissions, else each against the first.

    Pairs of passes come first; what passes are measured against is the first of its pair.
    """
    count = len(submissions)
    baseline = [submission.compiler in BASELINES for submission in submissions]
    if count * (count - 1) // 2 <= most:
        pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    else:
        pairs = [(0, j) for j in range(1, count)]
    pairs = [(j, i) if baseline[j] and not baseline[i] else (i, j) for i, j in pairs]
    return sorted(pairs, key=lambda pair: baseline[pair[0]] + baseline[pair[1]])
