"""Runs tasks on the devices of this machine: while one graph is timed, the next ones prepare."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from pass_bench.batch.device import DeviceWorkers
from pass_bench.batch.executor import Measured, OnMeasured
from pass_bench.batch.tasks import GraphTask
from pass_bench.results.records import EnvironmentRecord, EvalSettings

# A host's driver starts about four CUDA processes a second, two for each graph in work, and holds up all
# other calls meanwhile. Were they asked for as fast as it can, all would be ready at the end; with time to
# breathe, the first is timed while the next ones start. A device times a graph in some 0.7 s.
STAGGER_S, LEAST_STAGGER_S = 0.7, 0.4


class LocalExecutor:
    """Worker threads over a set of devices; `jobs` graphs are in work per device, and one of them is timed.

    `devices` are CUDA device numbers or ("cpu",). `hush`: see `Evaluator`.
    """

    def __init__(
        self,
        settings: EvalSettings,
        compilers: tuple[str, ...],
        devices: Sequence[str],
        jobs: int,
        hush: bool = True,
    ):
        self._devices = [
            DeviceWorkers(
                settings.model_copy(update={"device": "cpu" if device == "cpu" else settings.device}),
                compilers,
                None if device in ("cpu", "auto") else device,
                hush,
            )
            for device in devices
        ]
        self._jobs = jobs

    def __enter__(self) -> LocalExecutor:
        _on_each(self._devices, lambda device: device.__enter__(), undo=_end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _on_each(self._devices, _end)

    def environments(self) -> Sequence[EnvironmentRecord]:
        return [device.environment for device in self._devices]

    def run(self, tasks: Sequence[GraphTask], on_measured: OnMeasured, stop: Callable[[], bool]) -> None:
        waiting = deque(tasks)
        results: queue.Queue[Measured | BaseException | None] = queue.Queue()
        halted = threading.Event()
        stagger_s = max(LEAST_STAGGER_S, STAGGER_S / len(self._devices))

        def work(device: DeviceWorkers, number: int) -> None:
            try:
                if device.environment.device == "cuda":
                    halted.wait(number * stagger_s)
                if device.cores is not None:
                    os.sched_setaffinity(0, device.cores.rest)  # of this thread
                while not halted.is_set() and not stop():
                    try:
                        task = waiting.popleft()
                    except IndexError:
                        break
                    results.put(Measured(task, device.evaluate(task), device.environment))
                device.shrink()  # while others finish, instead of all at the end
            except BaseException as error:
                results.put(error)
            finally:
                results.put(None)

        threads = [
            threading.Thread(target=work, args=(device, place * len(self._devices) + number), daemon=True)
            for place in range(self._jobs)
            for number, device in enumerate(self._devices)
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        failure: BaseException | None = None
        try:
            while running:
                item = _take(results)
                if item is None:
                    running -= 1
                elif isinstance(item, BaseException):
                    halted.set()
                    failure = failure or item
                else:
                    on_measured(item)
        finally:
            halted.set()
        if failure is not None:
            raise failure


def _end(device: DeviceWorkers) -> None:
    device.__exit__(None, None, None)


def _on_each(
    devices: Sequence[DeviceWorkers],
    step: Callable[[DeviceWorkers], object],
    undo: Callable[[DeviceWorkers], object] = lambda device: None,
) -> None:
    """Do something that takes seconds on all devices at once; where one fails, undo the others and raise."""
    with ThreadPoolExecutor(len(devices)) as pool:
        steps = {pool.submit(step, device): device for device in devices}
        try:
            for future in steps:
                future.result()
        except BaseException:
            for future, device in steps.items():
                if future.exception() is None:  # waits for it
                    undo(device)
            raise


def _take(results: queue.Queue[Measured | BaseException | None]) -> Measured | BaseException | None:
    """Wait for an item in short turns, so that signals are handled while waiting."""
    while True:
        try:
            return results.get(timeout=0.2)
        except queue.Empty:
            continue
