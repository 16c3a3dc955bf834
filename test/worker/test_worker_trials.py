"""Blocks of trials that do not fit the control are taken again, and do not count."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pass_bench.guard.clock_fit import Block, Misfit
from pass_bench.guard.processes import CpuAccount
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.worker.conversation import Timed
from pass_bench.worker.messages import TimeReply, TimeRequest
from pass_bench.worker.outcome import Stop
from pass_bench.worker.trials import LATE_MISFITS, MOST_MISFITS, Trials

BAD = Misfit("clock", "made up")


class Candidate:
    """Says that the n-th block of real trials took 1 + n us a call, whatever the arm."""

    def __init__(self) -> None:
        self.blocks = 0

    def __call__(self, request: TimeRequest) -> Timed:
        self.blocks += request.trials > 0
        arm = (1000 * (1 + self.blocks),) * request.trials
        reply = TimeReply(trials=(arm,) * len(request.arms))
        return Timed(reply, 10**9, CpuAccount(0, 0), ())


def trials_of(
    judgements: Iterator[Misfit | None], monkeypatch: pytest.MonkeyPatch, count: int = 20
) -> Trials:
    """Run one round of the stopping rule, each block judged by the next of `judgements`."""
    monkeypatch.setattr(time, "sleep", lambda _: None)

    def beside(block: Block) -> Misfit | None:
        return next(judgements)

    settings = EvalSettings(trials=20, warmup=0)
    return Trials(Candidate(), settings, "cpu", (), unrewritten=False, beside=beside)


def times_of(trials: Trials) -> set[int]:
    trials.run()
    return set(trials._host_times[0])


def test_a_block_that_fits_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert times_of(trials_of(iter([None]), monkeypatch)) == {2000}


def test_one_that_does_not_is_taken_again_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = trials_of(iter([BAD, None]), monkeypatch)
    assert times_of(trials) == {3000} and len(trials._host_times[0]) == 20


def test_as_many_must_fit_as_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert times_of(trials_of(iter([BAD, BAD, None, BAD, None, None]), monkeypatch)) == {7000}


def test_blocks_grow_while_they_do_not_fit_and_one_that_fits_is_used_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials = trials_of(iter([BAD] * 4 + [None] * 4), monkeypatch)
    asked: list[int] = []
    ask = trials._ask

    def noted(request: TimeRequest) -> Timed:
        asked.append(request.trials)
        return ask(request)

    trials._ask = noted
    used = trials._watched_block(20)
    # one as long as the first one, then twice, four and eight times as long; fits leave the length as it is
    assert [count for count in asked if count] == [20, 20, 40, 80, 160, 160, 160, 160]
    assert {len(arm) for arm in used} == {160}


def test_too_many_that_do_not_fit_are_a_reason_to_reject(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stop) as stopped:
        trials_of(iter([BAD] * MOST_MISFITS), monkeypatch).run()
    assert stopped.value.verdict is Verdict.REJECTED and stopped.value.reason == (
        f"clock: made up, in {MOST_MISFITS} blocks more than not"
    )


def test_fewer_are_enough_after_a_long_time(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = trials_of(iter([BAD] * LATE_MISFITS + [None] * 9), monkeypatch)
    hours = iter(range(1000))
    monkeypatch.setattr(time, "monotonic", lambda: 3600.0 * next(hours))
    with pytest.raises(Stop):
        trials._watched_block(20)


def test_noise_without_end_is_an_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def undecided() -> Iterator[Misfit | None]:
        yield BAD
        while True:
            yield BAD
            yield None

    with pytest.raises(Stop):
        trials_of(undecided(), monkeypatch).run()


def test_checks_between_blocks_cost_no_time_for_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda _: None)
    budgets: list[float] = []
    candidate = Candidate()

    def ask(request: TimeRequest) -> Timed:
        budgets.append(request.budget_s)
        return candidate(request)

    def hour(_: object) -> None:
        now[0] += 3600.0

    settings = EvalSettings(trials=100, warmup=0, time_budget_s=5.0)
    trials = Trials(ask, settings, "cpu", (), unrewritten=False, between=hour, beside=hour)
    trials.run()
    assert candidate.blocks >= 3 and set(budgets) == {5.0}  # the first hundred come in three parts


@pytest.mark.parametrize(
    ("call_us", "guarded", "blocks"),
    [
        (20, False, [100, 100, 200, 400]),
        (200, True, [100, 100, 200, 400]),  # two arms: 20 ms for the first hundred
        (40, True, [100, 300, 400]),  # after 8 ms, 24 are the least that is more than 20
        (10, True, [100, 700]),
    ],
)
def test_beside_guards_later_blocks_are_not_short(
    call_us: int, guarded: bool, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pass_bench.worker.trials.LONG_S", {"cpu": 0.0})  # so 800 rounds at most
    taken: list[int] = []
    order = random.Random(1)

    def ask(request: TimeRequest) -> Timed:
        taken.append(request.trials)
        # from nothing to twice as long: no interval is narrow
        times = [2000 * call_us * (number + 1) // (request.trials + 1) for number in range(request.trials)]
        arms = tuple(tuple(order.sample(times, len(times))) for _ in request.arms)
        return Timed(TimeReply(trials=arms), 2000 * call_us * request.trials, CpuAccount(0, 0), ())

    between = (lambda _: None) if guarded else None
    settings = EvalSettings(trials=100, warmup=0)
    trials = Trials(ask, settings, "cpu", (), unrewritten=False, between=between)
    monkeypatch.setattr(trials, "_parts", lambda count: [count])
    trials.run()
    assert [count for count in taken if count] == blocks


def test_inputs_are_taken_the_same_way_with_checks_and_without() -> None:
    requests: list[TimeRequest] = []
    candidate = Candidate()

    def ask(request: TimeRequest) -> Timed:
        requests.append(request)
        return candidate(request)

    for settings, watched in ((EvalSettings(trials=20), True), (EvalSettings(trials=20, compat=True), False)):
        requests.clear()
        Trials(ask, settings, "cpu", (), unrewritten=False).run()
        assert {bool(request.watch) for request in requests} == {watched}


@pytest.mark.parametrize("watched", [True, False])
def test_each_block_comes_after_a_look_without_trials_of_which_the_least_counts(watched: bool) -> None:
    candidate = Candidate()
    looks = iter([900, 400, 700])

    def ask(request: TimeRequest) -> Timed:
        timed = candidate(request)
        empty = not request.trials and not request.warmup
        return replace(timed, wall_ns=next(looks), cpu=CpuAccount(300, 100)) if empty else timed

    beside = (lambda _: None) if watched else None
    trials = Trials(ask, EvalSettings(trials=20, warmup=5), "cpu", (), unrewritten=False, beside=beside)
    for _ in range(3):
        trials.again(20)
    # 900 ns less 100 of waiting, then 400 less 100, which stays the least
    assert [(block.empty_ns, block.empty_ran_ns) for block in trials.blocks] == [
        (800, 300),
        (300, 300),
        (300, 300),
    ]
