"""Inputs of ordinary timed calls, which change a little now and then, and what one call made of them.

A pass must not be able to do its work in audited calls only. So every block of timed calls is one: before
each call a few elements are written, mostly with what is there already, and after it chance decides whether
its outputs are the ones to be compared. Nothing of this is inside the clock, and all arms have their share.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pass_bench.guard.audit import alias_of, nudged_elements
from pass_bench.timing.interleave import FreshInputs, clone_like

CHANGES = 48  # of 256 calls have a content drawn anew, so that most of an arm are like the one before


class WatchedInputs:
    """The inputs of all arms of a block. `number` says which content is there: 0 the usual, else a seed's.

    `ranges` are those of the usual content (guard/audit.py). Addresses and version counters never change.
    """

    def __init__(
        self,
        values: Sequence[Any],
        mutated: frozenset[int],
        seeds: Sequence[int],
        ranges: dict[int, tuple[float, float]],
    ):
        self._fresh = FreshInputs(values, mutated)
        self._contents = len(seeds) + 1
        self.number = 0
        plans = [nudged_elements(values, seed, ranges) for seed in seeds]
        self._written: list[tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]] = []
        for place in ranges:
            flat = alias_of(values[place]).reshape(-1)
            elements = sorted({element for plan in plans for element in plan.get(place, ())})
            if not elements:
                continue
            index = torch.tensor(elements, device=flat.device)
            usual = flat[index]
            contents = [usual]
            for plan in plans:
                changed = usual.clone()
                for element, value in plan.get(place, {}).items():
                    changed[elements.index(element)] = value
                contents.append(changed)
            self._written.append((flat, index, tuple(contents)))

    def take(self) -> list[Any]:
        """Return arguments for the next call."""
        if os.urandom(1)[0] < CHANGES:
            self.number = os.urandom(1)[0] % self._contents
        self._write()
        return self._fresh.take()

    def restore(self) -> None:
        """Give the inputs their usual content."""
        self.number = 0
        self._write()

    def _write(self) -> None:
        for flat, index, contents in self._written:
            flat.index_copy_(0, index, contents[self.number])


@dataclass(frozen=True)
class Kept:
    """Copies of what a call returned and of the inputs that it may change; which content it ran on."""

    number: int
    outputs: Any
    arguments: dict[int, Any]


class Keeper:
    """Copies the outputs of `most` calls of an arm; which ones, is drawn after each call.

    Copied at once: whoever finds an output alive later on could still fill it.
    """

    def __init__(self, place: int, inputs: WatchedInputs, mutated: frozenset[int], most: int):
        self._place, self._inputs, self._mutated, self._most = place, inputs, mutated, most
        self._seen = 0
        self._known = {0}
        self._new: list[bool] = []
        self.kept: list[Kept] = []

    def saw(self, place: int, outputs: Any, arguments: Sequence[Any]) -> None:
        """Look at a call that is over and timed."""
        if place != self._place:
            return
        number = self._inputs.number
        self._seen += 1
        self._new.append(number not in self._known)
        self._known.add(number)
        slot = len(self.kept)
        if slot == self._most:
            slot = int.from_bytes(os.urandom(4), "little") % self._seen
        if slot < self._most:
            changed = {n: copy_of(arguments[n]) for n in self._mutated}
            self.kept[slot : slot + 1] = [Kept(number, copy_of(outputs), changed)]

    def new_among_last(self, count: int) -> tuple[int, ...]:
        """Which of the last calls were the first ones on their content."""
        last = self._new[len(self._new) - count :]
        return tuple(place for place, new in enumerate(last) if new)


def copy_of(value: Any, depth: int = 0) -> Any:
    """Copy plain tensors in plain containers; what has code of its own is left as it is."""
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return clone_like(value) if value.layout is torch.strided and not value.is_meta else value
    if type(value) in (tuple, list) and depth < 20:
        return type(value)(copy_of(item, depth + 1) for item in value)
    if type(value) is dict and depth < 20:
        return {key: copy_of(item, depth + 1) for key, item in value.items()}
    return value
