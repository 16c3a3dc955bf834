"""The threads that evaluate keep off the processors of the graph that is timed."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.batch import local
from pass_bench.results.records import EvalSettings
from pass_bench.worker.cores import Cores

ALL = os.sched_getaffinity(0)


class Workers:
    """Answers with the processors of the thread that asks."""

    environment = SimpleNamespace(device="cpu")

    def __init__(self, *_: Any) -> None:
        self.cores = Cores(frozenset({max(ALL)}), frozenset({min(ALL)}))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def evaluate(self, task: Any) -> Any:
        return os.sched_getaffinity(0)


@pytest.mark.skipif(len(ALL) < 2, reason="needs two processors")
@pytest.mark.parametrize("kept", [True, False])
def test_threads_run_on_the_rest(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "DeviceWorkers", Workers)
    executor = local.LocalExecutor(EvalSettings(), ("nope",), ["0"], jobs=2)
    if not kept:
        executor._devices[0].cores = None  # type: ignore[misc]
    found: list[Any] = []
    tasks: list[Any] = ["one", "two", "three"]
    with executor:
        executor.run(tasks, found.append, lambda: False)
    assert [item.result for item in found] == [{min(ALL)} if kept else ALL] * 3
    assert os.sched_getaffinity(0) == ALL
