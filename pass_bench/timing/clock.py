"""One timed call: what runs inside the clock and what outside."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Call = Callable[..., Any]
_states: dict[int, torch.Tensor] = {}  # of the CPU generator, by seed


def no_sync() -> None:
    """The CPU has nothing to wait for."""


def sync_of(device: str) -> Callable[[], None]:
    """Return what waits for all work of a device ("cpu" or "cuda")."""
    return torch.cuda.synchronize if device == "cuda" else no_sync


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection and no autograd while trials run."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with torch.no_grad():
            yield
    finally:
        if enabled:
            gc.enable()


def reseed(seed: int) -> None:
    """Set the seed as torch.manual_seed does; on the CPU by its state, since seeding anew takes 0.25 ms.

    What a timing block spends between calls is what its outside clock cannot tell from hidden work.
    """
    if torch.cuda.is_initialized():
        torch.manual_seed(seed)
        return
    state = _states.get(seed)
    if state is None:
        torch.manual_seed(seed)
        _states[seed] = torch.get_rng_state()
    else:
        torch.default_generator.set_state(state)


def time_host(call: Call, inputs: Sequence[object], seed: int, sync: Callable[[], None]) -> int:
    """Return the nanoseconds of host time from the call to the end of its device work.

    The seed is set and the device idle before the clock starts; outputs are freed after it stops.
    """
    reseed(seed)
    sync()
    clock = time.perf_counter_ns
    start = clock()
    outputs = call(*inputs)
    sync()
    end = clock()
    del outputs
    return max(end - start, 1)


def time_device(call: Call, inputs: Sequence[object], seed: int, sync: Callable[[], None]) -> int:
    """Return the nanoseconds between two CUDA events around the call on the current stream."""
    torch.manual_seed(seed)
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    sync()
    start.record()
    outputs = call(*inputs)
    end.record()
    sync()
    del outputs
    return max(int(start.elapsed_time(end) * 1e6), 1)
