"""When a pass is said to remember its results: only if it is slow on new content however often one looks."""

from __future__ import annotations

from typing import Any

import pytest

from pass_bench.guard.clock_fit import Block
from pass_bench.results.records import EvalSettings
from pass_bench.worker import integrity
from pass_bench.worker.integrity import MEMORY_LOOKS, Integrity
from pass_bench.worker.messages import Drawn
from pass_bench.worker.outcome import Stop

US = 1000
CALLS, NEW = 30, (4, 11, 17, 20, 26, 29)


class Trials:
    """Stands in for the trials of a pass; `new_us` says how long calls on new content take in which block."""

    def __init__(self, new_us: Any):
        self._new_us = new_us
        self.blocks: list[Block] = []
        self.more: list[int] = []
        self._take()

    def _take(self) -> None:
        slow = self._new_us(len(self.blocks))
        compiled = tuple((slow if call in NEW else 50) * US for call in range(CALLS))
        self.blocks.append(Block(((100 * US,) * CALLS, compiled), 10**9, 0, new=NEW))

    def again(self, count: int) -> None:
        self.more.append(count)
        self._take()


def judge(monkeypatch: pytest.MonkeyPatch, new_us: Any) -> tuple[str, Trials]:
    monkeypatch.setattr(integrity, "PAUSE_S", 0.0)
    drawn = Drawn(outputs=1, effects=(), payload_bytes=64, eager_ns=100 * US, seed=1)
    found, trials = Integrity(None, EvalSettings(), "cpu", "", drawn), Trials(new_us)  # type: ignore[arg-type]
    try:
        found._reject_memory(trials)  # type: ignore[arg-type]
    except Stop as stop:
        return stop.violations[0].rule, trials
    return "", trials


def test_slow_on_new_content_only_is_remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda block: 460)
    assert rule == "remembered"
    # A hundred trials in three parts: as many calls between two looks as in one of these.
    assert trials.more == [33] * (MEMORY_LOOKS - 1)


def test_one_quick_call_on_new_content_acquits(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda block: 460 if block == 0 else 60)
    assert (rule, trials.more) == ("", [33])


def test_calls_that_are_as_quick_need_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda block: 75)
    assert (rule, trials.more) == ("", [])
