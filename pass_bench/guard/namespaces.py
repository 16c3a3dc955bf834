"""New user, mount, pid, net and ipc namespaces around a forked child."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from pass_bench.guard.syscalls import call, prctl

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
FLAGS = {
    "user": CLONE_NEWUSER,
    "mount": CLONE_NEWNS,
    "pid": CLONE_NEWPID,
    "net": CLONE_NEWNET,
    "ipc": CLONE_NEWIPC,
}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def die_with_parent() -> None:
    """Have the kernel kill the caller when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def fork_into(
    kinds: tuple[str, ...],
    *,
    uid: int,
    gid: int,
    prepare: Callable[[], None],
    close_fds: tuple[int, ...],
) -> str:
    """Fork the rest of this process into new namespaces; returns "" there, or why the kernel refused, here.

    On success only the innermost process returns. The caller becomes a waiter that holds none of `close_fds`
    and ends as the innermost process ends: with the same exit code or by the same signal. Between them stands
    the namespace's init, which runs `prepare` with every capability over the new namespaces, kills everything
    when the innermost process ends and is itself killed with the waiter. `uid` and `gid` are what the
    caller's processes are outside. On failure nothing has changed for the caller.
    """
    privileged = os.geteuid() == 0
    go_read, go_write = os.pipe()
    say_read, say_write = os.pipe()
    flags = int(signal.SIGCHLD)
    for kind in kinds:
        flags |= FLAGS[kind]
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        init = call("clone", flags, 0, 0, 0, 0)
    except OSError as error:
        for descriptor in (go_read, go_write, say_read, say_write):
            os.close(descriptor)
        return f"namespaces refused: {error.strerror or error}"
    if init == 0:
        os.close(go_write)
        os.close(say_read)
        _be_init(
            go_read,
            say_write,
            prepare,
            close_fds,
            drop_groups=privileged,
            in_user_namespace="user" in kinds,
        )
        return ""
    os.close(go_read)
    os.close(say_write)
    problem = _map_ids(init, uid, gid, privileged) if "user" in kinds else ""
    if not problem:
        with contextlib.suppress(BrokenPipeError):
            os.write(go_write, b"g")
        tag = os.read(say_read, 1)
        if tag != b"+":
            problem = os.read(say_read, 4096).decode(errors="replace") or "the namespace's init died"
    if problem:
        with contextlib.suppress(ProcessLookupError):
            os.kill(init, signal.SIGKILL)
        os.waitpid(init, 0)
        os.close(go_write)
        os.close(say_read)
        return problem
    _wait_for(init, say_read, close_fds)
    raise AssertionError("unreachable")


def _map_ids(init: int, uid: int, gid: int, privileged: bool) -> str:
    try:
        proc = Path(f"/proc/{init}")
        if not privileged:
            (proc / "setgroups").write_text("deny")
        (proc / "uid_map").write_text(f"0 {uid} 1\n")
        (proc / "gid_map").write_text(f"0 {gid} 1\n")
    except OSError as error:
        return f"id mapping refused: {error.strerror}"
    return ""


def _be_init(
    go_read: int,
    say_write: int,
    prepare: Callable[[], None],
    close_fds: tuple[int, ...],
    *,
    drop_groups: bool,
    in_user_namespace: bool,
) -> None:
    """Set up as the first process of the namespaces and fork; returns in the forked process only."""
    try:
        if os.read(go_read, 1) != b"g":
            os._exit(1)
        if drop_groups:
            os.setgroups([])
        if in_user_namespace:
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        die_with_parent()  # after the change of ids, which clears it
        if select.select([go_read], [], [], 0)[0]:  # end of file: the waiter died before we asked
            os._exit(1)
        prctl(_PR_SET_DUMPABLE, 0)
        prepare()
        inner = os.fork()
    except OSError as error:
        os.write(say_write, b"-" + str(error.strerror or error).encode())
        os._exit(1)
    if inner == 0:
        os.close(go_read)
        os.close(say_write)
        prctl(_PR_SET_DUMPABLE, 1)
        return
    _close(close_fds)
    os.write(say_write, b"+")
    while True:
        pid, status = os.wait()  # orphans of the innermost process land here too
        if pid == inner:
            os.write(say_write, struct.pack("<i", status))
            os._exit(0)


def _wait_for(init: int, say_read: int, close_fds: tuple[int, ...]) -> None:
    _close(close_fds)
    raw = os.read(say_read, 4)
    os.waitpid(init, 0)
    end_as(struct.unpack("<i", raw)[0] if len(raw) == 4 else signal.SIGKILL)


def end_as(status: int) -> None:
    """End this process as another one with this wait status ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(128 + number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
