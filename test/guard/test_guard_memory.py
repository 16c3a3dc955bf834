"""When a pass is said to remember its results: only if known content is fast where new content is slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.guard.clock_fit import Block
from pass_bench.results.records import EvalSettings
from pass_bench.worker import integrity
from pass_bench.worker.integrity import Integrity
from pass_bench.worker.messages import Audit, Compared, Drawn, TimeReply
from pass_bench.worker.outcome import Stop

US = 1000
EAGER_US, USUAL_US = 100, 50


class Trials:
    """Stands in for the trials of a pass; `cost` says how long a call on known or new content takes."""

    def __init__(self, cost: Any):
        self._cost = cost
        arms = ((EAGER_US * US,) * 30, (USUAL_US * US,) * 30)
        self.blocks = [Block(arms, 10**9, 0)]
        self.audits: list[Audit] = []
        self.more = 0

    def again(self, count: int) -> None:
        self.more += count

    def audited(self, audit: Audit) -> tuple[TimeReply, tuple[int, ...]]:
        self.audits.append(audit)
        rounds = range(len(audit.seeds))
        compiled = tuple(self._cost(number in audit.known, len(self.audits)) * US for number in rounds)
        return TimeReply(trials=((EAGER_US * US,) * len(rounds), compiled)), ()


def integrity_of(monkeypatch: pytest.MonkeyPatch) -> Integrity:
    monkeypatch.setattr(integrity, "PAUSE_S", 0.0)
    drawn = Drawn(outputs=1, effects=(), payload_bytes=64, eager_ns=EAGER_US * US, seed=1)
    talk = SimpleNamespace(
        draw=lambda *args, **kwargs: drawn, compare=lambda *args: Compared(passes_from=-5, tensors=())
    )
    return Integrity(talk, EvalSettings(), "cpu", "", drawn)  # type: ignore[arg-type]


def judge(monkeypatch: pytest.MonkeyPatch, cost: Any) -> tuple[str, Trials]:
    found, trials = integrity_of(monkeypatch), Trials(cost)
    found._audit(trials, "moved")  # type: ignore[arg-type]
    try:
        found._reject_memory(trials)  # type: ignore[arg-type]
    except Stop as stop:
        return stop.violations[0].rule, trials
    return "", trials


def test_slow_on_new_content_only_is_remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda known, audit: USUAL_US if known else 460)
    assert rule == "remembered"
    looks = trials.audits[1:]
    assert len(looks) == 3 and all(look.known and look.keep not in look.known for look in looks)
    assert all(max(look.known) < look.keep for look in looks)  # known first: being warm helps new content
    assert trials.more >= 3 * 33  # as many usual calls between the looks as between two audits


def test_slow_whenever_audited_is_no_offence(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda known, audit: 460)
    assert rule == "" and len(trials.audits) == 2


def test_one_look_without_a_difference_acquits(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda known, audit: 460 if audit < 3 and not known else USUAL_US)
    assert rule == "" and len(trials.audits) == 3


def test_quick_audits_need_no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, trials = judge(monkeypatch, lambda known, audit: USUAL_US * 3 // 2)
    assert rule == "" and len(trials.audits) == 1 and trials.more == 0
