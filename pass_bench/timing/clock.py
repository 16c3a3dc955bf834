"""One timed call: what runs inside the clock and what outside."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Call = Callable[..., Any]
Seen = Callable[[Any, Sequence[object]], None]  # of a call that is over: its outputs, its inputs


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
    """Set the seeds of the CPU's and of CUDA's generators, as torch.manual_seed does, in 2 us instead of 200.

    torch.manual_seed also goes through kinds of devices that are not there. What a timing block spends
    between calls is what its outside clock cannot tell from hidden work.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)


def time_host(
    call: Call, inputs: Sequence[object], seed: int, sync: Callable[[], None], seen: Seen | None = None
) -> int:
    """Return the nanoseconds of host time from the call to the end of its device work.

    The seed is set and the device idle before the clock starts; after it stops `seen` may look at the outputs
    and the inputs, and the outputs are freed.
    """
    reseed(seed)
    sync()
    clock = time.perf_counter_ns
    start = clock()
    outputs = call(*inputs)
    sync()
    end = clock()
    if seen is not None:
        seen(outputs, inputs)
    del outputs
    return max(end - start, 1)


def time_device(
    call: Call, inputs: Sequence[object], seed: int, sync: Callable[[], None], seen: Seen | None = None
) -> int:
    """Return the nanoseconds between two CUDA events around the call on the current stream."""
    reseed(seed)
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    sync()
    start.record()
    outputs = call(*inputs)
    end.record()
    sync()
    if seen is not None:
        seen(outputs, inputs)
    del outputs
    return max(int(start.elapsed_time(end) * 1e6), 1)
