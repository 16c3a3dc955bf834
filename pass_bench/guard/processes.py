"""Watching a child with everything it started, from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
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


def running_threads(pid: int) -> int | None:
    """How many threads of a process tree run or want to run now; None while it is stopped.

    Whether they get a core does not matter, so that a busy machine hides nothing.
    """
    if _state(pid, pid) == "T":
        return None
    running = 0
    for each in descendants(pid):
        with contextlib.suppress(OSError):
            running += sum(
                _state(each, int(task.name)) == "R" for task in Path(f"/proc/{each}/task").iterdir()
            )
    return running


def busy_threads(
    pid: int, seen: Sequence[int] = (), looks: int = 8, interval_s: float = 0.008, limit_s: float = 2.0
) -> float:
    """How many threads of a process tree run or want to run, on average over a few looks.

    `seen`: what earlier looks have shown, which count among them.
    """
    seen = list(seen)
    end = time.monotonic() + limit_s
    while len(seen) < looks and time.monotonic() < end:
        time.sleep(interval_s)
        running = running_threads(pid)
        if running is not None:
            seen.append(running)
    return sum(seen) / max(1, len(seen))


def _state(pid: int, thread: int) -> str:
    """The kernel's letter for what a thread does ("R": it runs or wants to), "" where there is none."""
    try:
        return Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


@dataclass(frozen=True)
class CpuAccount:
    """Nanoseconds that the first threads of a process tree have run, and have waited for a core."""

    ran_ns: int
    waited_ns: int

    def since(self, before: CpuAccount) -> CpuAccount:
        """What was added after an earlier account."""
        return CpuAccount(max(0, self.ran_ns - before.ran_ns), max(0, self.waited_ns - before.waited_ns))


def cpu_account(pid: int) -> CpuAccount:
    """The kernel's account of a process tree so far."""
    ran = waited = 0
    for each in descendants(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{each}/schedstat").read_text().split()
            ran, waited = ran + int(fields[0]), waited + int(fields[1])
    return CpuAccount(ran, waited)


def settle(pid: int, limit_s: float = 0.002) -> None:
    """Wait until the first threads of a process tree sleep, or for so long.

    What a process does after its answer, and its waiting for a core meanwhile, is then in the account before
    the next request and not in that of the request.
    """
    tree, end = descendants(pid), time.monotonic() + limit_s
    while any(_state(each, each) == "R" for each in tree) and time.monotonic() < end:
        time.sleep(0.0001)


class MemoryWatch:
    """Kills a process tree that grows beyond a limit, by polling; a context manager.

    Memory that it had at the start (pages shared with the process it was forked from) does not count.
    """

    def __init__(self, pid: int, limit_bytes: int, interval_s: float = 0.1):
        self._pid, self._limit, self._interval = pid, limit_bytes, interval_s
        self._base = resident_bytes(descendants(pid))
        self._end = threading.Event()
        self.exceeded = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(self._interval):
            if resident_bytes(descendants(self._pid)) - self._base > self._limit:
                self.exceeded = True
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                return
