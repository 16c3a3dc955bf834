"""What a person sees while a list runs: how far, how fast, how long still, and the score so far."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pass_bench.batch.executor import Measured
from pass_bench.results.records import GraphResult
from pass_bench.score.outcome import Outcome, outcome_of
from pass_bench.score.summary import mean_score, summarize

LINE_EVERY_S = 30.0


class RunningScore:
    """The geometric mean of the samples' AS, kept up to date as results come in."""

    def __init__(self, compiler: str):
        self._compiler = compiler
        self._outcomes: dict[str, list[Outcome]] = defaultdict(list)
        self._scores: dict[str, float | None] = {}

    def add(self, sample: str, result: GraphResult) -> None:
        """Take a result; those of a baseline compiler do not count."""
        if result.compiler != self._compiler:
            return
        self._outcomes[sample].append(outcome_of(result))
        self._scores[sample] = summarize(self._outcomes[sample]).score

    @property
    def value(self) -> float | None:
        """AS over the samples seen so far, None if none has a score."""
        return mean_score(self._scores.values())


class BatchProgress:
    """A live bar on a terminal, a line now and then elsewhere. A context manager."""

    def __init__(self, console: Console, compiler: str):
        self._console = console
        self._score = RunningScore(compiler)
        self._start = self._said = time.monotonic()
        self._total = self._done = 0
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[score]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("graphs", total=None, rate="", score="")

    def __enter__(self) -> BatchProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, asked: int, skipped: Sequence[GraphResult]) -> None:
        """Say how much there is to do; the results that are there count in the score."""
        self._total = asked - len(skipped)
        for result in skipped:
            self._score.add(result.sample, result)
        self._start = self._said = time.monotonic()
        self._bar.update(self._task, total=self._total)
        already = f", {len(skipped)} already in the store" if skipped else ""
        self._console.print(f"{asked} graphs{already}", highlight=False)

    def add(self, measured: Measured) -> None:
        """Count a result."""
        self._done += 1
        self._score.add(measured.task.owner.name, measured.result)
        hours = max(time.monotonic() - self._start, 1e-9) / 3600
        rate = f"{self._done / hours:.0f}/h"
        score = self._score.value
        words = f"AS {score:.3f}" if score is not None else ""
        self._bar.update(self._task, completed=self._done, rate=rate, score=words)
        if not self._console.is_terminal and (
            time.monotonic() - self._said > LINE_EVERY_S or self._done == self._total
        ):
            self._said = time.monotonic()
            left_s = (self._total - self._done) * hours * 3600 / self._done
            self._console.print(
                f"{self._done}/{self._total} graphs, {rate}, ETA {left_s / 60:.1f} min, {words}",
                highlight=False,
            )
