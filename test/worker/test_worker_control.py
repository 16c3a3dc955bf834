"""The control's blocks are taken as warm, and on the same contents, as those that are held against them."""

from __future__ import annotations

from typing import Any

from pass_bench.guard.processes import CpuAccount
from pass_bench.worker.control import Control
from pass_bench.worker.messages import TimeReply
from pass_bench.worker.trials import RETURN_ROUNDS


def test_a_block_comes_after_a_warm_up_and_has_the_contents_asked_for() -> None:
    asked: list[tuple[int, int, tuple[int, ...]]] = []

    def ask(rounds: int, warmup: int, budget_s: float, watch: tuple[int, ...] = ()) -> Any:
        asked.append((rounds, warmup, watch))
        return TimeReply(trials=((7,) * rounds,) * 3), 1000, CpuAccount(0, 0)

    control = Control.__new__(Control)
    control._ask = ask  # type: ignore[method-assign]
    control._device, control._empty_ns, control._empty_ran_ns = "cpu", 10, 5
    block = control.block(4, 1.0, (1, 2))
    assert asked == [(0, RETURN_ROUNDS, ()), (4, 0, (1, 2))]
    assert block.arms == ((7,) * 4,) * 3 and block.wall_ns == 1000 and block.empty_ns == 10
