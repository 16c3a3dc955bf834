"""What the checks leave in the record: on which inputs a call was doubtful, what was not looked at."""

from __future__ import annotations

import contextlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.guard.clock_fit import Block
from pass_bench.guard.kernel_log import MAX_GHOSTS
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.score.tolerance import BASELINE_T
from pass_bench.worker.integrity import GHOSTS_BELOW_NS, Integrity
from pass_bench.worker.messages import Audit, Compared, Drawn, GuardDone, GuardRequest
from pass_bench.worker.outcome import Stop

RECORDED, RANDOM = Drawn(seed=123, eager_ns=100_000), Drawn(seed=7, eager_ns=100_000)


class Talk:
    """Answers for a pass with so many kernels whose outputs are right from a tolerance level on."""

    def __init__(self, kernels: int = 1, level: int = BASELINE_T):
        self._kernels, self._level = kernels, level

    def draw(self, regime: str, **_: Any) -> Drawn:
        return RANDOM if regime == "random" else RECORDED

    def guard(self, request: GuardRequest) -> tuple[GuardDone, tuple[int, ...]]:
        return GuardDone(kernels=tuple(f"cpp k{i}" for i in range(self._kernels))), ()

    def kept(self, which: int, budget_bytes: int) -> tuple[Any, tuple[int, ...]]:
        return SimpleNamespace(number=0, payload=None), ()

    def compare(self, *_: Any) -> Compared:
        return Compared(tensors=(), passes_from=self._level)


class Trials:
    watch, kept = (1, 2), 1

    def __init__(self) -> None:
        self.audits: list[Audit] = []

    def audited(self, audit: Audit) -> None:
        self.audits.append(audit)


class Ended(Trials):
    """Trials that are over, and look good."""

    def __init__(self) -> None:
        super().__init__()
        self.watch, self.compiled_us = (), 1e5
        self.blocks = [Block(((10**8,) * 15,) * 2, 3 * 10**9, 0)] * 3


def integrity(*regimes: Any, **talk: int) -> Integrity:
    return Integrity(Talk(**talk), EvalSettings(regimes=regimes), "cpu", "", RECORDED)  # type: ignore[arg-type]


def doubtful(found: Integrity) -> tuple[str, int]:
    assert found.evidence.doubtful is not None
    return found.evidence.doubtful_regime, found.evidence.doubtful_seed


@pytest.mark.parametrize("drawn", [RECORDED, RANDOM])
def test_a_doubtful_watched_call_is_recorded_with_its_inputs(drawn: Drawn) -> None:
    regimes = ("recorded",) if drawn is RECORDED else ("recorded", "random")
    found = integrity(*regimes, level=BASELINE_T + 1)
    found.guarded_call(1000)
    assert doubtful(found) == (regimes[-1], drawn.seed)


def test_a_doubtful_audited_call_is_recorded_with_its_inputs() -> None:
    found = integrity("recorded", "random", level=BASELINE_T + 1)
    found._audit(Trials(), ["moved"])  # type: ignore[arg-type]
    assert doubtful(found) == ("random", RANDOM.seed)


def audits_of(blocks: int, *regimes: Any, eager_ns: int = 100_000) -> list[tuple[int, Audit]]:
    """The audits of a graph whose trials have so many blocks, each with how many blocks came before it."""
    drawn = RECORDED.model_copy(update={"eager_ns": eager_ns})
    found = Integrity(Talk(), EvalSettings(regimes=regimes), "cpu", "", drawn)  # type: ignore[arg-type]
    found.before_trials(None, 0, 1.0)
    trials, taken = Ended(), []
    for number in range(1, blocks + 1):
        before = len(trials.audits)
        found.between_blocks(trials)  # type: ignore[arg-type]
        taken += [number] * (len(trials.audits) - before)
    found.after_trials(trials)  # type: ignore[arg-type]
    taken += [blocks] * (len(trials.audits) - len(taken))
    return list(zip(taken, trials.audits, strict=True))


def test_audits_come_after_a_block_that_is_not_the_first_and_after_the_last() -> None:
    places, orders, seeds = set(), set(), set()
    for _ in range(60):
        (early, first), (late, last) = audits_of(5, "recorded", "random")
        assert late == 5 and last.modes == ("refilled",)
        assert sorted(first.modes) == ["moved", "refilled"]
        places.add(early)
        orders.add(first.modes)
        seeds.update((*first.seeds, *last.seeds))
    assert places == {2, 3} and len(orders) == 2 and len(seeds) == 180


def test_fewer_audits_where_there_is_one_block_or_calls_are_slow() -> None:
    ((place, audit),) = audits_of(1, "recorded", "random")
    assert place == 1 and sorted(audit.modes) == ["moved", "refilled"]
    slow = [audits_of(4, "recorded", "random", eager_ns=300_000_000) for _ in range(40)]
    assert {tuple((place, audit.modes) for place, audit in audits) for audits in slow} == {
        ((4, ("moved",)),),
        ((4, ("refilled",)),),
    }


def test_no_audit_without_the_random_regime() -> None:
    assert audits_of(5, "recorded") == []


@pytest.mark.parametrize(
    ("verdict", "eager_fails", "stops"),
    [
        (Verdict.RUNTIME_FAIL, True, False),
        (Verdict.RUNTIME_FAIL, False, True),
        (Verdict.REJECTED, True, True),
    ],
)
def test_a_pass_may_fail_in_an_audit_where_eager_does(
    verdict: Verdict, eager_fails: bool, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Trials):
        def audited(self, audit: Audit) -> None:
            raise Stop(verdict, "no such index")

    found = integrity("recorded", "random")
    skipped = RANDOM.model_copy(update={"skipped": "eager raises" if eager_fails else ""})
    monkeypatch.setattr(Talk, "draw", lambda *_, **__: skipped)
    with pytest.raises(Stop) if stops else contextlib.nullcontext():
        found._audit(Failing(), ["moved"])  # type: ignore[arg-type]


def test_a_doubtful_ordinary_call_was_on_recorded_inputs() -> None:
    found = integrity("recorded", "random", level=BASELINE_T + 1)
    found.between_blocks(Trials())  # type: ignore[arg-type]
    assert doubtful(found) == ("recorded", RECORDED.seed)


@pytest.mark.parametrize(
    ("kernels", "run_ns", "warnings"),
    [
        (MAX_GHOSTS, 1000, []),
        (0, GHOSTS_BELOW_NS, []),
        (12, 1000, [f"{MAX_GHOSTS} of 12 kernels were left out to see what they do"]),
        (2, 700_000_000, ["no kernel was left out to see what it does: a call takes 0.7 s"]),
    ],
)
def test_the_record_says_which_kernels_were_not_looked_at(
    kernels: int, run_ns: int, warnings: list[str]
) -> None:
    found = integrity("recorded", kernels=kernels)
    found.guarded_call(run_ns)
    assert found.warnings == warnings


def test_calls_on_the_same_content_need_eager_once() -> None:
    drawn: list[int | None] = []
    compared: list[tuple[int | None, str]] = []

    class Three(Talk):
        numbers = (2, 0, 2)

        def draw(self, regime: str, **options: Any) -> Drawn:
            drawn.append(options["nudge"])
            return RECORDED

        def kept(self, which: int, budget_bytes: int) -> tuple[Any, tuple[int, ...]]:
            return SimpleNamespace(number=self.numbers[which], payload=f"outputs {which}"), ()

        def compare(self, payload: Any, *_: Any) -> Compared:
            compared.append((drawn[-1], payload))
            return Compared(tensors=(), passes_from=BASELINE_T)

    found = Integrity(Three(), EvalSettings(regimes=("recorded",)), "cpu", "", RECORDED)  # type: ignore[arg-type]
    trials = Trials()
    trials.watch, trials.kept = (11, 22), 3
    found.between_blocks(trials)  # type: ignore[arg-type]
    assert drawn == [22, None]
    assert compared == [(22, "outputs 0"), (22, "outputs 2"), (None, "outputs 1")]


def test_a_content_that_was_not_asked_for_is_a_rejection() -> None:
    class Odd(Talk):
        def kept(self, which: int, budget_bytes: int) -> tuple[Any, tuple[int, ...]]:
            return SimpleNamespace(number=3, payload=None), ()

    found = Integrity(Odd(), EvalSettings(regimes=("recorded",)), "cpu", "", RECORDED)  # type: ignore[arg-type]
    with pytest.raises(Stop) as stop:
        found.between_blocks(Trials())  # type: ignore[arg-type]
    assert [violation.rule for violation in stop.value.violations] == ["protocol"]


class Beside:
    """A control whose calls take 10 us, with 5 us between two of them."""

    def __init__(self) -> None:
        self.asked = 0

    def block(self, rounds: int, budget_s: float, watch: Any, enough_ns: int) -> Block:
        self.asked += 1
        return Block(((10_000,) * 15,) * 2, 15 * 30_000, 0)


def test_the_control_is_timed_beside_the_first_blocks_and_those_that_do_not_fit() -> None:
    def block(hidden_us: int) -> Block:
        return Block(((10_000,) * 20,) * 2, 20 * (30_000 + 1000 * hidden_us), 0)

    found, control = integrity("recorded"), Beside()
    found._control = control  # type: ignore[assignment]
    # the slack is 80 us a round: twice 40
    judged = [found.control_block(block(hidden)) is None for hidden in (0, 0, 90, 0, 0, 90, 70)]
    assert judged == [True, True, False, True, True, False, True]
    assert control.asked == 4
    found._look_closer = True
    assert found.control_block(block(0)) is None and control.asked == 5


def test_blocks_of_the_control_are_longer_where_they_differ() -> None:
    def block(wall_ms: float, call_us: int) -> Block:
        return Block(((1000 * call_us,) * 15,) * 3, int(wall_ms * 1e6), 1_000_000)

    found = integrity()

    def rounds_after(*blocks: Block) -> tuple[int, int]:
        found._control_blocks = list(blocks)
        return found._control_rounds(block(2.5, 10))

    usual = (15, 20_000_000)
    assert rounds_after() == usual
    assert rounds_after(block(2.5, 10), block(2.6, 10)) == usual
    # 3 ms more in one: 100 us a round in the other, and 20 ms hold 200 of those
    assert rounds_after(block(2.5, 10), block(5.5, 10)) == (200, sys.maxsize)
    assert rounds_after(block(7.0, 100), block(11.0, 100)) == (50, sys.maxsize)  # of 400 us
    assert rounds_after(block(151.0, 3000), block(161.0, 3000)) == (15, sys.maxsize)  # of 10 ms


@pytest.mark.parametrize(("got", "looks"), [(3, 1), (15, 3)])
def test_calls_so_slow_that_no_block_says_anything_are_not_looked_at_again(got: int, looks: int) -> None:
    class Slow(Trials):
        def __init__(self) -> None:
            super().__init__()
            self.watch, self.compiled_us = (), 1e5
            self.blocks = [Block(((10**8,) * 3,) * 2, 600_000_000, 0)]
            self.asked: list[int] = []

        def again(self, count: int) -> None:
            self.asked.append(count)
            self.blocks.append(Block(((10**8,) * got,) * 2, 200_000_000 * got, 0))

    trials = Slow()
    integrity("recorded").after_trials(trials)  # type: ignore[arg-type]
    assert trials.asked == [15] * looks


class Timed(Trials):
    """Blocks of two arms: some before the end of the trials, then one for each look; so much is hidden."""

    def __init__(self, hidden_us: list[float], call_us: int = 100, before: int = 3):
        self.watch, self.compiled_us = (), call_us
        self._call_us, self._hidden_us = call_us, hidden_us
        self.blocks: list[Block] = []
        self.asked: list[int] = []
        for _ in range(before):
            self._take(30)

    def again(self, count: int) -> None:
        self.asked.append(count)
        self._take(count)

    def _take(self, rounds: int) -> None:
        hidden_us = self._hidden_us.pop(0)
        arms = ((1000 * self._call_us,) * rounds,) * 2
        wall_ns = 1000 * rounds * (2 * self._call_us + 2 * 5 + hidden_us)
        self.blocks.append(Block(arms, int(wall_ns), 0))


def looked_at(trials: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the clock against a control with 5 us between two calls."""
    monkeypatch.setattr("pass_bench.worker.integrity.PAUSE_S", 0.0)
    found = integrity("recorded")
    call_ns = int(1000 * trials.compiled_us)
    found._control_blocks = [Block(((call_ns,) * 15,), 15 * (call_ns + 5000), 0)] * 3
    found.after_trials(trials)  # type: ignore[arg-type]


def test_good_blocks_do_not_excuse_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # The slack is 50 us a round, half of the claimed 100 us.
    trials = Timed([0, 0, *[60] * 7])
    with pytest.raises(Stop) as stop:
        looked_at(trials, monkeypatch)
    assert [violation.rule for violation in stop.value.violations] == ["clock"]
    assert trials.asked == [74, 74, 74, 120, 240, 480]  # at first 20 ms of rounds of 270 us


def test_one_good_block_from_the_last_one_on_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Timed([500, 500, 500, 300, 60, 40])
    looked_at(trials, monkeypatch)
    assert len(trials.asked) == 3


def test_a_last_block_that_is_too_short_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = Timed([0, 0, 0, 9000])
    trials._take(9)
    looked_at(trials, monkeypatch)
    assert trials.asked == []


def test_one_disturbed_block_of_slow_calls_is_no_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Timed):
        def again(self, count: int) -> None:
            super().again(3)  # as many as there is time for

    trials = Slow([90_000, *[0] * 8], call_us=100_000, before=1)
    looked_at(trials, monkeypatch)
    assert trials.asked == [3]
