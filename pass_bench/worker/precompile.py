"""Compile the kernels of several graphs at once, in children that do nothing else."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pass_bench.worker.messages import (
    CandidateJob,
    CandidateReply,
    CandidateRequest,
    Entered,
    Prepared,
    PrepareRequest,
)
from pass_bench.worker.processes import ChildDied, ZygoteProcess
from pass_bench.worker.protocol import PeerTimeout, ProtocolError

MOST_CHILDREN = 16


def compile_in_parallel(zygote: ZygoteProcess, jobs: Sequence[CandidateJob], timeout_s: float) -> int:
    """Prepare every job in a child of its own, which ends then; return how many succeeded.

    What they compile lies in the cache of their pass set afterwards. What fails here fails again, and is
    reported, where the graph is evaluated.
    """
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(max(1, min(len(jobs), cores, MOST_CHILDREN))) as pool:
        return sum(pool.map(lambda job: _compile(zygote, job, time.monotonic() + timeout_s), jobs))


def _compile(zygote: ZygoteProcess, job: CandidateJob, deadline: float) -> bool:
    with zygote.fork("candidate") as child:
        try:
            child.send(CandidateRequest(request=job), deadline=deadline)
            envelope, _ = child.receive(CandidateReply, deadline)
            if not isinstance(envelope.reply, Entered):
                return False
            child.send(CandidateRequest(request=PrepareRequest(compile_only=True)), deadline=deadline)
            envelope, _ = child.receive(CandidateReply, deadline)
        except (ChildDied, PeerTimeout, ProtocolError):
            return False
        return isinstance(envelope.reply, Prepared)


@contextlib.contextmanager
def tuning_left_out() -> Iterator[None]:
    """Have Triton's autotuner compile all its configurations and time none of them.

    Times that are taken while other children compile would pick the wrong ones, and be kept.
    """
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        yield
        return

    def compiled(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        with contextlib.suppress(Exception):  # one that cannot be compiled is left out by the tuning itself
            tuner.fn.run(*args, **{**meta, **config.all_kwargs(), "warmup": True})
        return [0.0, 0.0, 0.0]

    def not_kept(tuner: Any, tuning_key: Any, configs: Any, bench: Any) -> bool:
        bench()
        return False

    before = {
        name: getattr(Autotuner, name) for name in ("_bench", "check_disk_cache") if hasattr(Autotuner, name)
    }
    for name, function in (("_bench", compiled), ("check_disk_cache", not_kept)):
        if name in before:
            setattr(Autotuner, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(Autotuner, name, function)
