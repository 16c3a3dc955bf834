"""Glances at a candidate of which nothing was asked, while the reference works."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.results.records import EvalSettings
from pass_bench.worker import conversation
from pass_bench.worker.conversation import GLANCE_EVERY_S, SPIN_S, Conversation
from pass_bench.worker.messages import Done, ForgetRequest, TimeReply, TimeRequest


class Clock:
    """Time that passes when it is told to, and a process with so many running threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now, self.running = 100.0, 0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(conversation, "running_threads", lambda pid: self.running)
        monkeypatch.setattr(conversation, "settle", lambda pid: None)


class Peer:
    """Takes every request; answers with what it is given, after so many seconds."""

    pid, paused_s = os.getpid(), 0.0

    def __init__(self, clock: Clock, reply: Any):
        self._clock, self._reply = clock, reply
        self.takes_s = 0.0

    def send(self, *_: Any, **__: Any) -> None:
        pass

    def receive(self, *_: Any) -> tuple[Any, tuple[int, ...]]:
        self._clock.now += self.takes_s
        return SimpleNamespace(reply=self._reply), ()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def talk_of(clock: Clock) -> tuple[Conversation, Peer]:
    reference = Peer(clock, Done())
    talk = Conversation(EvalSettings(), "cpu", reference)  # type: ignore[arg-type]
    talk.with_candidate(Peer(clock, TimeReply(trials=())))  # type: ignore[arg-type]
    return talk, reference


def ask(talk: Conversation, reference: Peer, seconds: float) -> None:
    reference.takes_s = seconds
    talk.reference_ask(ForgetRequest())


REQUEST = TimeRequest(arms=("eager",), trials=1, warmup=0, order_seed=1)


def test_a_candidate_is_glanced_at_once_it_has_been_silent_for_a_while(clock: Clock) -> None:
    talk, reference = talk_of(clock)
    ask(talk, reference, 1.0)
    assert talk.glances == []  # it has not been asked for anything yet
    talk.timed(REQUEST)
    ask(talk, reference, SPIN_S / 2)
    assert talk.glances == []  # its threads may still spin
    clock.running = 2
    ask(talk, reference, SPIN_S)
    assert talk.glances == [2]
    clock.running = 0
    ask(talk, reference, GLANCE_EVERY_S / 2)
    assert talk.glances == [2]  # too soon
    ask(talk, reference, GLANCE_EVERY_S)
    assert talk.glances == [2, 0]


def test_one_that_works_or_is_stopped_is_not(clock: Clock) -> None:
    talk, reference = talk_of(clock)
    talk.timed(REQUEST)
    clock.running = None  # type: ignore[assignment]
    ask(talk, reference, 1.0)
    assert talk.glances == []
    clock.running = 1
    talk.send(REQUEST)
    ask(talk, reference, 1.0)
    assert talk.glances == []


def test_what_was_seen_before_timed_calls_does_not_count(clock: Clock) -> None:
    talk, reference = talk_of(clock)
    talk.timed(REQUEST)
    ask(talk, reference, 1.0)
    assert talk.glances == [0]
    talk.timed(REQUEST)
    assert talk.glances == []
