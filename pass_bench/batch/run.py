"""A run over a list: what is done is skipped, what comes in is stored at once; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pass_bench.batch.executor import Executor, Measured
from pass_bench.batch.tasks import GraphTask
from pass_bench.results.keys import measured_key
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.store import Retry, Store, StoredResult


@dataclass(frozen=True, slots=True)
class RunCounts:
    """How a run went: graphs asked for, found in the store, measured now."""

    asked: int
    skipped: int
    measured: int

    @property
    def left(self) -> int:
        """Graphs that a stop left unmeasured."""
        return self.asked - self.skipped - self.measured


def task_key(task: GraphTask, settings: EvalSettings, environment: EnvironmentRecord) -> str:
    """Return the store's key of a task measured with these settings in this environment."""
    return measured_key(
        sample=task.owner.name,
        graph=task.graph_key,
        position=task.index,
        passes=task.pass_key,
        settings=settings.model_copy(update={"compiler": task.compiler}),
        environment=environment,
    )


def pending(
    tasks: Sequence[GraphTask],
    settings: EvalSettings,
    environments: Iterable[EnvironmentRecord],
    store: Store,
    retry: Sequence[Retry],
) -> tuple[list[GraphTask], list[str]]:
    """Return the tasks that the store has for none of the environments, and the keys of the others."""
    done = store.done(retry)
    places = list(environments)
    todo, there = [], []
    for task in tasks:
        keys = (task_key(task, settings, place) for place in places)
        found = next((key for key in keys if key in done), None)
        if found is None:
            todo.append(task)
        else:
            there.append(found)
    return todo, there


def run_tasks(
    executor: Executor,
    tasks: Sequence[GraphTask],
    settings: EvalSettings,
    store: Store,
    *,
    submission: str = "",
    retry: Sequence[Retry] = (),
    stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[int, Sequence[GraphResult]], None] = lambda asked, skipped: None,
    on_measured: Callable[[Measured], None] = lambda measured: None,
) -> RunCounts:
    """Measure what is missing and append it to the store as it comes. Raises HarnessFailure.

    `on_start` is called with the number of tasks and the results that are there.
    """
    todo, there = pending(tasks, settings, executor.environments(), store, retry)
    on_start(len(tasks), store.results(there))
    measured = 0

    def keep(item: Measured) -> None:
        nonlocal measured
        stored = StoredResult(
            submission=submission,
            environment=store.add_environment(item.environment),
            measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
            result=item.result.model_copy(update={"sample": item.task.owner.name}),
        )
        store.append(task_key(item.task, settings, item.environment), stored)
        measured += 1
        on_measured(item)

    executor.run(todo, keep, stop)
    return RunCounts(asked=len(tasks), skipped=len(tasks) - len(todo), measured=measured)
