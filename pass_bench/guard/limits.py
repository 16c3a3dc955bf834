"""Resource limits of the process that runs a pass."""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one graph's child may use; sizes in bytes.

    `processes` counts threads too (an OpenMP pool has one per core). Memory has no rlimit (RLIMIT_AS breaks
    CUDA, which reserves far more address space than it uses): the supervisor polls it, see `processes.py`.
    """

    processes: int = 256 + 8 * (os.cpu_count() or 1)
    file_size: int = 2 << 30
    open_files: int = 4096
    tmp: int = 2 << 30


def apply(limits: Limits) -> None:
    """Set the limits on the calling process and its children for good; never raises a limit in force."""
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (ceiling, ceiling))
