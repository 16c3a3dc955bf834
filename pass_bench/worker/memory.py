"""Peak memory of one call, above what was allocated before it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import torch

MOST_IDLE_BYTES = 1 << 30


def trim(device: str) -> None:
    """Give memory back to the device if a worker that waits for its next graph would sit on much of it.

    Not all of it each time: each call to the driver waits for those of all other processes of the host.
    """
    gc.collect()
    if device == "cuda" and torch.cuda.memory_reserved() > MOST_IDLE_BYTES:
        torch.cuda.empty_cache()


def peak_bytes(call: Callable[..., Any], inputs: Sequence[object], device: str) -> int | None:
    """Run once and return the largest number of bytes held through PyTorch's allocator at any moment.

    On the CPU the profiler's allocation events are added up; what a kernel mallocs by itself is not seen.
    None if there is nothing to measure with.
    """
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.no_grad():
            outputs = call(*inputs)
        torch.cuda.synchronize()
        del outputs
        return max(0, torch.cuda.max_memory_allocated() - before)
    from torch.autograd.profiler import profile

    with torch.no_grad(), profile(profile_memory=True, use_cpu=True) as session:
        outputs = call(*inputs)
        del outputs
    if session.kineto_results is None:
        return None
    held = peak = 0
    moments = [event for event in session.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(moments, key=lambda moment: moment.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak
