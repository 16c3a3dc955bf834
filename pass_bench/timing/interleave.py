"""Times several callables in turns within one process, so that drift and neighbours hit all alike."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from pass_bench.timing.clock import Call, quiet, sync_of, time_device, time_host

Saw = Callable[[int, Any, Sequence[object]], None]


class TimedInputs(Protocol):
    """Where timed calls get their arguments from."""

    def take(self) -> list[object]:
        """Return arguments for one call, made outside the clock."""
        ...


@dataclass(frozen=True)
class FreshInputs:
    """Inputs for timed calls: what a call changes is cloned anew for each one, the rest is shared.

    `mutated` are the positions that eager or the compiled graph changes.
    """

    values: Sequence[object]
    mutated: frozenset[int] = field(default_factory=frozenset)

    def take(self) -> list[object]:
        """Return arguments for one call."""
        if not self.mutated:
            return list(self.values)
        return [
            clone_like(value) if place in self.mutated and isinstance(value, torch.Tensor) else value
            for place, value in enumerate(self.values)
        ]


def clone_like(value: torch.Tensor) -> torch.Tensor:
    """Return a copy with the same strides and storage offset; overlapping memory stays overlapping."""
    storage = value.untyped_storage()
    last = value.storage_offset() + sum(
        (size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True)
    )
    if value.numel() and (value.is_contiguous() and value.storage_offset() == 0):
        return value.detach().clone()
    if value.numel() == 0:
        return torch.empty_like(value)
    flat = torch.empty(0, dtype=value.dtype, device=value.device).set_(storage, 0, (last + 1,), (1,)).clone()
    return flat.as_strided(value.shape, value.stride(), value.storage_offset())


@dataclass(frozen=True)
class Plan:
    """How one block of trials runs; see `time_block`."""

    trials: int
    warmup: int
    order_seed: int
    seed: int
    device: str = "cpu"
    clock: str = "host"
    sequential: bool = False
    budget_s: float = 60.0
    min_trials: int = 3


def time_block(
    calls: Sequence[Call], inputs: Sequence[TimedInputs], plan: Plan, saw: Saw | None = None
) -> list[list[int]]:
    """Return nanoseconds per callable and round.

    In each round every callable runs once, in random order. The block ends early once `budget_s` is spent,
    after at least `min_trials` rounds; the warm-up may take a quarter of the budget. `sequential` runs all
    trials of the last callable first, as published numbers were measured (compiled, then eager). `saw` is
    told of each call after its clock has stopped: which callable, its outputs, its inputs.
    """
    one: Callable[..., int] = time_device if plan.clock == "device" else time_host
    sync = sync_of(plan.device)
    order = random.Random(plan.order_seed)
    times: list[list[int]] = [[] for _ in calls]
    seen = [None if saw is None else functools.partial(saw, place) for place in range(len(calls))]

    def trial(place: int) -> int:
        arguments = inputs[place].take()
        return one(calls[place], arguments, plan.seed, sync, seen[place])

    def rounds(places: list[int], count: int, budget_s: float, least: int, keep: bool) -> None:
        end = time.monotonic() + budget_s
        for number in range(count):
            if number >= least and time.monotonic() > end:
                return
            order.shuffle(places)
            for place in places:
                nanoseconds = trial(place)
                if keep:
                    times[place].append(nanoseconds)

    with quiet():
        groups = (
            [[place] for place in reversed(range(len(calls)))]
            if plan.sequential
            else [list(range(len(calls)))]
        )
        share = 1.0 / len(groups)
        for places in groups:
            rounds(places, plan.warmup, plan.budget_s * share / 4, min(1, plan.warmup), keep=False)
            rounds(places, plan.trials, plan.budget_s * share, plan.min_trials, keep=True)
    return times
