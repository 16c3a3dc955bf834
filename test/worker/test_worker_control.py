"""The control's blocks are taken as warm, and on the same contents, as those that are held against them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from pass_bench.guard.processes import CpuAccount
from pass_bench.worker.control import Control
from pass_bench.worker.messages import Entered, Fault, Prepared, TimeReply
from pass_bench.worker.pool import Loan
from pass_bench.worker.protocol import PeerTimeout
from pass_bench.worker.trials import RETURN_ROUNDS


@pytest.mark.parametrize(
    ("round_ns", "enough_ns", "rounds"),
    [
        (1_000_000, sys.maxsize, 15),
        (1_000_000, 20_000_000, 15),
        (2_000_000, 20_000_000, 10),
        (9 * 10**6, 2 * 10**7, 6),
    ],
)
def test_slow_calls_get_fewer_rounds(round_ns: int, enough_ns: int, rounds: int) -> None:
    def ask(count: int, warmup: int, budget_s: float, watch: tuple[int, ...] = ()) -> Any:
        return TimeReply(trials=((7,) * count,) * 3), round_ns * (warmup or 1), CpuAccount(0, 0)

    control = Control.__new__(Control)
    control._ask = ask  # type: ignore[method-assign]
    control._device, control._empty_ns, control._empty_ran_ns = "cpu", 0, 0
    assert control.block(15, 1.0, (1, 2), enough_ns).rounds == rounds


def test_a_block_comes_after_a_warm_up_and_has_the_contents_asked_for() -> None:
    asked: list[tuple[int, int, tuple[int, ...]]] = []
    walls = iter([900, 40, 1000, 900, 30, 1000, 900, 50, 1000])  # warm-up, without trials, trials

    def ask(rounds: int, warmup: int, budget_s: float, watch: tuple[int, ...] = ()) -> Any:
        asked.append((rounds, warmup, watch))
        return TimeReply(trials=((7,) * rounds,) * 3), next(walls), CpuAccount(25, 20)

    control = Control.__new__(Control)
    control._ask = ask  # type: ignore[method-assign]
    control._device, control._empty_ns, control._empty_ran_ns = "cpu", sys.maxsize, sys.maxsize
    blocks = [control.block(4, 1.0, (1, 2)) for _ in range(3)]
    assert asked[:3] == [(0, RETURN_ROUNDS, ()), (0, 0, ()), (4, 0, (1, 2))]
    assert blocks[0].arms == ((7,) * 4,) * 3 and blocks[0].wall_ns == 1000
    # 40 ns less 20 of waiting, then 30 less 20, which stays the least
    assert [(block.empty_ns, block.empty_ran_ns) for block in blocks] == [(20, 25), (10, 25), (10, 25)]


class Answering:
    """A process that answers so many requests and was killed, or not."""

    def __init__(self, replies: list[object]):
        self._replies = replies

    def receive(self, kind: type, deadline: float) -> tuple[Any, tuple[int, ...]]:
        if not self._replies:
            raise PeerTimeout("nothing came")
        return SimpleNamespace(reply=self._replies.pop(0)), ()


@pytest.mark.parametrize(
    ("replies", "sound"),
    [
        ([Entered(), Prepared()], True),
        ([Entered()], False),  # it never prepared
        ([Entered(), Fault(fault="runtime_fail", reason="no memory")], False),
    ],
)
def test_a_process_that_answers_later_is_as_good_as_before(replies: list[object], sound: bool) -> None:
    control = Control.__new__(Control)
    control._stack, control._unanswered, control._lost = ExitStack(), 2, False
    loan = control._loan = Loan(Answering(replies))  # type: ignore[arg-type]
    control._child = loan.child
    with control:
        pass  # the graph ended before its control was asked for anything
    assert loan.sound is sound
