"""Forked children of the stages: none outlives its parent, so two never write the same file."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def fork() -> int:
    """As `os.fork`; on Linux the child is killed when its parent ends, however that ends."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0 and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the line above
            os._exit(1)
    return pid


def killed_from_outside(status: int) -> bool:
    """Whether an exit status tells of a signal that the limits of the stages never send: it says nothing
    about what the child worked on."""
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
