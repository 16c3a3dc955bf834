"""Run a command in a process group of its own, with a time limit that ends all of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pass_agent.runtime.base import LOG_LIMIT, Ran
from pass_agent.runtime.gate import Gate
from pass_agent.text import cap, clean

MARK = "PASSAGENT_BOX"  # in the environment of everything that runs in a box
SHOWN = 40_000


def die_with_parent() -> list[str]:
    """A prefix that ends the command when its parent dies, where util-linux has it."""
    return ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []


def run_group(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    mark: str,
    gate: Gate,
) -> Ran:
    """Run `argv`; output goes to the file `log`, so that nobody can hold us by keeping a pipe open.

    `mark` is the box's name: processes that carry it in their environment are ended too, wherever they fled.
    Raises Interrupted where the gate is closed.
    """
    started = time.monotonic()
    timed_out = flooded = False
    with gate.passing(), log.open("wb") as sink:
        process = subprocess.Popen(
            [*die_with_parent(), *argv],
            cwd=cwd,
            env={**env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    pause = 0.005
    try:
        while process.poll() is None:
            timed_out = time.monotonic() - started > timeout_s
            flooded = log.stat().st_size > LOG_LIMIT
            if timed_out or flooded:
                break
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
    finally:
        end_group(process.pid)
        process.wait()
        end_marked(mark)
    seconds = time.monotonic() - started
    return Ran(
        code=process.returncode,
        output=read_log(log),
        timed_out=timed_out,
        flooded=flooded,
        seconds=seconds,
    )


def end_group(group: int) -> None:
    """Send SIGKILL to a process group that may be gone already."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def find_marked(mark: str) -> list[int]:
    """Processes whose environment carries this box's mark; `mark` may be a prefix."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if any(item.startswith(wanted) for item in environment.split(b"\0")):
            found.append(int(entry.name))
    return found


def end_marked(mark: str) -> int:
    """End every process that carries the mark; returns how many there were.

    Repeated, since a process may fork while the list is read.
    """
    ended = 0
    for _ in range(20):
        found = [pid for pid in find_marked(mark) if pid != os.getpid()]
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
                ended += 1
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.01)
    return ended


def read_log(log: Path) -> str:
    """Head and tail of a log file as clean text."""
    size = log.stat().st_size
    with log.open("rb") as source:
        if size <= 2 * SHOWN:
            return clean(source.read().decode("utf-8", "replace"))
        head = source.read(SHOWN)
        source.seek(size - SHOWN)
        tail = source.read()
    return cap(clean((head + tail).decode("utf-8", "replace")), SHOWN)
