"""Devices start and end at once; the threads that evaluate keep off the processors of the timed graph."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.batch import local
from pass_bench.errors import HarnessFailure
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

    def shrink(self) -> None:
        pass


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


def executor_on(devices: list[str], workers: type, monkeypatch: pytest.MonkeyPatch) -> local.LocalExecutor:
    monkeypatch.setattr(local, "DeviceWorkers", workers)
    return local.LocalExecutor(EvalSettings(), ("nope",), devices, jobs=1)


def test_devices_start_and_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(3, timeout=10)  # breaks where one waits for another to be ready

    class Slow(Workers):
        def __enter__(self) -> Slow:
            meeting.wait()
            return self

        def __exit__(self, *_: Any) -> None:
            meeting.wait()

    with executor_on(["0", "1", "2"], Slow, monkeypatch):
        assert not meeting.broken
    assert not meeting.broken


@pytest.mark.parametrize("broken", ["0", "2"])
def test_a_device_that_does_not_start_ends_the_others(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    class Fragile(Workers):
        def __init__(self, settings: Any, compilers: Any, visible: str, hush: bool) -> None:
            super().__init__()
            self.visible = visible

        def __enter__(self) -> Fragile:
            if self.visible == broken:
                raise HarnessFailure(f"no device {self.visible}")
            return self

        def __exit__(self, *_: Any) -> None:
            ended.append(self.visible)

    with (
        pytest.raises(HarnessFailure, match=f"no device {broken}"),
        executor_on(["0", "1", "2"], Fragile, monkeypatch),
    ):
        pytest.fail("started")
    assert ended == [device for device in ("0", "1", "2") if device != broken]


def test_every_thread_that_has_no_more_to_do_ends_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    others_ended = threading.Event()

    class Counting(Workers):
        def evaluate(self, task: Any) -> Any:
            if task == "last":
                assert others_ended.wait(10)
            said.append(task)

        def shrink(self) -> None:
            said.append("ended")
            if said.count("ended") == 2:
                others_ended.set()

        def __exit__(self, *_: Any) -> None:
            said.append("closed")

    monkeypatch.setattr(local, "DeviceWorkers", Counting)
    executor = local.LocalExecutor(EvalSettings(), ("nope",), ["0"], jobs=3)
    tasks: list[Any] = ["last", "first"]
    with executor:
        executor.run(tasks, lambda measured: None, lambda: False)
    assert sorted(said[:3]) == ["ended", "ended", "first"] and said[3:] == ["last", "ended", "closed"]
