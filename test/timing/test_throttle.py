"""A device that lowers its clock: noticed by a fake clock, and the block is taken again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pass_bench.guard.processes import CpuAccount
from pass_bench.results.records import EvalSettings
from pass_bench.timing.nvml import ClockReading, highest_clocks
from pass_bench.timing.throttle import ClockWatch, Source, clock_source
from pass_bench.worker.conversation import Timed
from pass_bench.worker.messages import TimeReply, TimeRequest
from pass_bench.worker.trials import MOST_RETAKEN, Trials


def clock(readings: Sequence[int | ClockReading]) -> Source:
    """Return a clock that shows these readings, and the last one for ever after."""
    rest: Iterator[int | ClockReading] = iter(readings)

    def read() -> ClockReading:
        nonlocal last
        last = next(rest, last)
        return last if isinstance(last, ClockReading) else ClockReading(last)

    last: int | ClockReading = 0
    return read


def found(*readings: int | ClockReading) -> list[str]:
    """Return what is said of each block, given the readings before and after it."""
    watch = ClockWatch(clock(readings))
    words = []
    for _ in range(len(readings) // 2):
        watch.begin()
        words.append(watch.dropped())
    return words


def test_a_steady_clock_is_no_drop() -> None:
    assert found(1980, 1980, 1980, 1965, 1900, 1950) == ["", "", ""]


def test_a_drop_within_a_block_and_one_since_an_earlier_block_are_noticed() -> None:
    low = "its clock was 1200 MHz, and 1980 MHz at another time"
    assert found(1980, 1200) == [low]
    assert found(1980, 1980, 1200, 1200, 1980, 1980) == ["", low, ""]


def test_a_clock_that_still_rises_is_one_too() -> None:
    assert found(345, 1980, 1980, 1980)[0].startswith("its clock was 345 MHz")


def test_what_the_hardware_says_counts() -> None:
    assert found(1980, ClockReading(1980, slowdown=True)) == ["it slows itself down at 1980 MHz"]


def test_without_a_clock_nothing_is_said() -> None:
    def broken() -> ClockReading:
        raise OSError("no NVML")

    for watch in (ClockWatch(None), ClockWatch(broken)):
        watch.begin()
        assert watch.dropped() == ""
    assert clock_source("cpu", None) is None


def test_a_machine_without_nvml_has_no_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pass_bench.timing.nvml.LIBRARY", "libno-such-library.so.1")
    assert highest_clocks() == "" and clock_source("cuda", "0") is None


def trials_with(source: Source | None, budget_s: float = 30.0) -> tuple[Trials, list[int]]:
    """Return trials on a candidate whose calls take 100 us, and the list of the blocks it was asked for."""
    blocks: list[int] = []

    def ask(request: TimeRequest) -> Timed:
        if request.trials:
            blocks.append(request.trials)
        times = tuple(100_000 + 10 * (number % 7) for number in range(request.trials))
        reply = TimeReply(trials=(times,) * len(request.arms))
        return Timed(reply, 10**12, CpuAccount(0, 0), ())

    settings = EvalSettings(device="cpu", trials=12, time_budget_s=budget_s)
    return Trials(ask, settings, "cpu", (), unrewritten=False, clock=source), blocks


def test_a_throttled_block_is_taken_again_and_does_not_count() -> None:
    trials, blocks = trials_with(clock([1980, 1200, 1980, 1980]))
    trials.run()
    trials.judge()
    assert blocks == [12, 12]
    assert trials.e2e is not None and trials.e2e.eager.trials == 12 and len(trials.blocks) == 1
    assert trials.warnings == [
        "the device throttled, so a block of trials was taken again: "
        "its clock was 1200 MHz, and 1980 MHz at another time"
    ]


def test_a_device_that_stays_slow_is_measured_all_the_same_and_the_record_says_so() -> None:
    trials, blocks = trials_with(clock([1980, 1200]))
    trials.run()
    trials.judge()
    assert len(blocks) == MOST_RETAKEN + 1
    assert trials.e2e is not None
    assert trials.warnings[-1].startswith("the device throttled during trials that count")
