"""A run over a list: what is done is skipped, what comes in is stored at once; no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pass_bench.batch.executor import Executor, Measured
from pass_bench.batch.tasks import GraphTask
from pass_bench.results.keys import environment_id, result_key, settings_id
from pass_bench.results.records import EnvironmentRecord, EvalSettings
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
    return result_key(
        graph=task.graph_key,
        position=task.index,
        passes=f"{task.owner.name}\0{task.pass_key}",
        settings=settings_id(settings.model_copy(update={"compiler": task.compiler})),
        environment=environment_id(environment),
        harness=environment.harness,
    )


def pending(
    tasks: Sequence[GraphTask],
    settings: EvalSettings,
    environments: Iterable[EnvironmentRecord],
    store: Store,
    retry: Sequence[Retry],
) -> list[GraphTask]:
    """Return the tasks that the store does not have for any of the environments."""
    done = store.done(retry)
    places = list(environments)
    return [task for task in tasks if not any(task_key(task, settings, place) in done for place in places)]


def run_tasks(
    executor: Executor,
    tasks: Sequence[GraphTask],
    settings: EvalSettings,
    store: Store,
    *,
    submission: str = "",
    retry: Sequence[Retry] = (),
    stop: Callable[[], bool] = lambda: False,
    on_start: Callable[[int, int], None] = lambda asked, skipped: None,
    on_measured: Callable[[Measured], None] = lambda measured: None,
) -> RunCounts:
    """Measure what is missing and append it to the store as it comes. Raises HarnessFailure."""
    todo = pending(tasks, settings, executor.environments(), store, retry)
    on_start(len(tasks), len(tasks) - len(todo))
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
