"""What runs graph tasks, wherever they run; no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pass_bench.batch.tasks import GraphTask
from pass_bench.results.records import EnvironmentRecord, GraphResult


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a task and the environment it was measured in."""

    task: GraphTask
    result: GraphResult
    environment: EnvironmentRecord


OnMeasured = Callable[[Measured], None]


class Executor(Protocol):
    """Runs tasks on the devices it was made with; a context manager."""

    def environments(self) -> Sequence[EnvironmentRecord]:
        """The distinct environments of its devices, in device order."""
        ...

    def run(self, tasks: Sequence[GraphTask], on_measured: OnMeasured, stop: Callable[[], bool]) -> None:
        """Run all tasks; `on_measured` is called from the caller's thread, one result at a time.

        No task is begun once `stop()` is true; those that run are finished. Raises HarnessFailure.
        """
        ...


def default_jobs(gpus: int, processors: int | None = None) -> int:
    """Return how many graphs to have in work per device of a machine, this one unless `processors` is given.

    One is timed while the others prepare, each on a core or two. On the CPU itself, the default is one: what
    verifies with all cores would wait for the timed one anyway.
    """
    if not gpus:
        return 1
    if processors is None:
        processors = len(os.sched_getaffinity(0))
    return max(2, min(8, processors // (2 * gpus)))
