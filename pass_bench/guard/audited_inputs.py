"""Feeds an audited block of trials: other content in every round, each with what the call made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pass_bench.guard.audit import Refill
from pass_bench.guard.audit_modes import AuditMode
from pass_bench.guard.watched_inputs import Kept, copy_of
from pass_bench.timing.interleave import FreshInputs, clone_like
from pass_bench.verify.compare import changed_inputs


class AuditedInputs:
    """Inputs of one arm; `take` changes them for each round, outside the clock.

    `draws` are the content of each round, `modes` say where it is put (guard/audit.py). `values` are the
    inputs of the ordinary trials; `refill` writes to them, and is the same one for all arms.
    """

    def __init__(
        self,
        values: Sequence[Any],
        mutated: frozenset[int],
        modes: Sequence[AuditMode],
        draws: Sequence[Sequence[Any]],
        refill: Refill,
    ):
        self._fresh = FreshInputs(values, mutated)
        self._modes, self._draws, self._refill = modes, draws, refill
        self._round = 0

    def take(self) -> list[Any]:
        """Return arguments for the next round."""
        number = self._round
        self._round += 1
        if self._modes[number] == "moved":
            return [clone_like(v) if isinstance(v, torch.Tensor) else v for v in self._draws[number]]
        self._refill.fill(self._draws[number])
        return self._fresh.take()


class Recorder:
    """Copies what the calls of an arm returned and changed; a call is the same frames as an ordinary one."""

    def __init__(self, place: int, draws: Sequence[Sequence[Any]]):
        self._place, self._draws = place, draws
        self.kept: list[Kept] = []

    def saw(self, place: int, outputs: Any, arguments: Sequence[Any]) -> None:
        """Look at a call that is over and timed."""
        if place != self._place:
            return
        changed = {n: copy_of(arguments[n]) for n in changed_inputs(self._draws[len(self.kept)], arguments)}
        self.kept.append(Kept(0, copy_of(outputs), changed))
