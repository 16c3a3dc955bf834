"""Watching and ending a child with everything it started, from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PAGE = os.sysconf("SC_PAGESIZE")


def descendants(pid: int) -> list[int]:
    """Process ids of `pid` and of all its living descendants, in any pid namespace below ours."""
    found = [pid]
    for parent in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def resident_bytes(pids: list[int]) -> int:
    """Physical memory of the processes: private pages, and the largest share of shared ones."""
    private = shared = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_text().split()
            private += (int(fields[1]) - int(fields[2])) * _PAGE
            shared = max(shared, int(fields[2]) * _PAGE)
    return private + shared


def kill_tree(pid: int, *, timeout_s: float = 2.0) -> float:
    """Kill `pid`, its group and all its descendants; returns the seconds until the last was gone.

    The caller need not be the parent; zombies count as gone. Raises TimeoutError where a process outlives
    `timeout_s` (one in an uninterruptible call into a GPU driver, say).
    """
    start = time.monotonic()
    known: dict[int, str] = {}
    while True:
        for each in descendants(pid):
            if (born := _born(each)) is not None:
                known.setdefault(each, born)
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == pid and pid != os.getpgrp():
                os.killpg(pid, signal.SIGKILL)
        for each, born in known.items():
            if _born(each) == born:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
        if not any(_born(each) == born for each, born in known.items()):
            return time.monotonic() - start
        if time.monotonic() - start > timeout_s:
            left = [each for each, born in known.items() if _born(each) == born]
            raise TimeoutError(f"processes {left} outlived a SIGKILL by {timeout_s} s")
        time.sleep(0.005)


def _born(pid: int) -> str | None:
    """Start time of a process in ticks, None where it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
