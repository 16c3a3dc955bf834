"""The running score: over all graphs asked for, also those that an earlier run has measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from tiny_sample import MODEL

from pass_bench.batch.executor import Measured, OnMeasured
from pass_bench.batch.progress import BatchProgress
from pass_bench.batch.run import RunCounts, run_tasks
from pass_bench.batch.tasks import GraphTask, graph_tasks, sample_tasks
from pass_bench.results.records import Comparison, EnvironmentRecord, EvalSettings, GraphResult, TimingStats
from pass_bench.results.store import Store
from pass_bench.results.verdict import Verdict

ENVIRONMENT = EnvironmentRecord(harness="1", python="3", torch="2", device="cpu", device_name="x")


def timed(task: GraphTask) -> GraphResult:
    """The first graph of a sample is twice as fast, the second eight times."""
    speedup = (2.0, 8.0)[task.index]
    stats = TimingStats(trials=9, median_us=1.0, q25_us=1.0, q75_us=1.0, min_us=1.0)
    return GraphResult(
        sample="elsewhere",
        graph=task.listed,
        index=task.index,
        compiler=task.compiler,
        device="cpu",
        verdict=Verdict.CORRECT,
        passes_from=-10,
        e2e=Comparison(eager=stats, compiled=stats, speedup=speedup, low=speedup, high=speedup),
    )


class Scripted:
    """Measures the first `most` tasks."""

    def __init__(self, most: int):
        self._most = most

    def environments(self) -> Sequence[EnvironmentRecord]:
        return [ENVIRONMENT]

    def run(self, tasks: Sequence[GraphTask], on_measured: OnMeasured, stop: Callable[[], bool]) -> None:
        for task in tasks[: self._most]:
            on_measured(Measured(task, timed(task), ENVIRONMENT))


def test_what_was_there_counts_in_the_score(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sample(graphs={"one": MODEL, "two": MODEL.replace("+", "*")}, name="a")
    tasks = graph_tasks(sample_tasks([tmp_path / "a"], None, None), [("nope", False)])

    def go(most: int) -> RunCounts:
        with Store(tmp_path / "r.jsonl") as store, BatchProgress(Console(), "nope") as progress:
            return run_tasks(
                Scripted(most),
                tasks,
                EvalSettings(compiler="nope"),
                store,
                on_start=progress.begin,
                on_measured=progress.add,
            )

    assert go(1) == RunCounts(asked=2, skipped=0, measured=1)
    capsys.readouterr()
    assert go(2) == RunCounts(asked=2, skipped=1, measured=1)
    said = capsys.readouterr().out
    assert "2 graphs, 1 already in the store" in said
    assert "AS 4.000" in said  # the geometric mean of 2 and 8
