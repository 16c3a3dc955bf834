"""Feeds an audited block of trials: other inputs in every round, one of them kept with its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from pass_bench.guard.audit import Refill, nudge
from pass_bench.guard.audit_modes import AuditMode
from pass_bench.timing.interleave import FreshInputs, clone_like


class AuditedInputs:
    """Inputs of one arm; `take` changes them for each round, outside the clock.

    `values` are the inputs of the ordinary trials, `draws` the content for each round (for "nudged": none,
    the seeds say what changes). The round `keep` leaves its arguments, as they were before the call, in
    `before` and, as they are after it, in `kept`.
    """

    def __init__(
        self,
        values: Sequence[Any],
        mutated: frozenset[int],
        mode: AuditMode,
        draws: Sequence[Sequence[Any]],
        seeds: Sequence[int],
        keep: int,
    ):
        self._values, self._mutated, self._mode = values, mutated, mode
        self._draws, self._seeds, self._keep = draws, seeds, keep
        self._refill = Refill(values)
        self._round = 0
        self._live = False
        self._group: list[AuditedInputs] = [self]
        self._recorder: Recorder | None = None
        self.kept: list[Any] = []
        self.before: list[Any] = []

    def share_with(self, group: list[AuditedInputs], recorder: Recorder | None = None) -> None:
        """Say which arms use the same memory: what one changes, another may want to keep first."""
        self._group, self._recorder = group, recorder

    def settle(self) -> None:
        """Copy the kept arguments, if they still lie in memory that the next round changes."""
        if self._live:
            self.kept = [clone_like(v) if isinstance(v, torch.Tensor) else v for v in self.kept]
            self._live = False

    def take(self) -> list[Any]:
        """Return arguments for the next round."""
        for arm in self._group:
            arm.settle()
        if self._recorder is not None:
            self._recorder.settle()
        number = self._round % len(self._seeds)
        source = self._values
        if self._mode == "moved":
            source = self._draws[number]
        elif self._mode == "refilled":
            self._refill.fill(self._draws[number])
        else:
            self._refill.restore()
            nudge(self._values, self._seeds[number])
        taken = FreshInputs(source, self._mutated).take()
        if self._round == self._keep:
            self.kept, self._live = taken, True
            self.before = [clone_like(v) if isinstance(v, torch.Tensor) else v for v in taken]
        self._round += 1
        return taken

    def restore(self) -> None:
        """Give the ordinary inputs their content back."""
        self._refill.restore()


class Recorder:
    """Keeps what one of the calls of an arm returned; a call is the same frames as an ordinary one."""

    def __init__(self, place: int, keep: int):
        self._place, self._keep, self._round = place, keep, 0
        self.outputs: Any = ()
        self._live = False

    def settle(self) -> None:
        """Copy the kept outputs: they may be views of inputs that the next round changes."""
        if self._live:
            self.outputs = tree_map_only(torch.Tensor, clone_like, self.outputs)
            self._live = False

    def saw(self, place: int, outputs: Any, arguments: Sequence[Any]) -> None:
        """Look at a call that is over and timed."""
        if place != self._place:
            return
        if self._round == self._keep:
            self.outputs, self._live = outputs, True
        self._round += 1
