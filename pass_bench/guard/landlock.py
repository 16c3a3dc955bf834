"""Landlock: which files a process may touch, enforced by the kernel without any privilege."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from pass_bench.guard.syscalls import call, prctl

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38
READ = _EXECUTE | _READ_FILE | _READ_DIR


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def abi() -> int:
    """Version of Landlock that the running kernel offers, 0 for none."""
    try:
        return call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict(
    *,
    read: Iterable[Path],
    write: Iterable[Path],
    devices: Iterable[Path] = (),
    change: Iterable[Path] = (),
) -> int:
    """Confine the calling thread and its children to the given trees; returns the Landlock version used.

    `read` may be read and executed, `write` also changed, `devices` opened, written and sent ioctls,
    `change` read and its files written but nothing made there. TCP,
    other processes' abstract sockets and signals to processes outside go too, as far as the kernel knows
    how. Paths that do not exist are left out. Raises OSError where the kernel has no Landlock.
    """
    version = abi()
    if version == 0:
        raise OSError(38, "the kernel has no Landlock")
    handled = _RIGHTS_BY_ABI.get(version, _RIGHTS_BY_ABI[5])
    scoped = 0 if version < 6 else 0b11
    attributes = _Ruleset(handled, 0b11 if version >= 4 else 0, scoped)
    size = 8 if version < 4 else (16 if version < 6 else 24)
    ruleset = call("landlock_create_ruleset", attributes, size, 0)
    try:
        for paths, rights in (
            (read, READ),
            (write, handled & ~_IOCTL_DEV),
            (devices, READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV),
            (change, READ | _WRITE_FILE | _TRUNCATE),
        ):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _ON_FILES
        call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, _PathBeneath(rights, descriptor), 0)
    finally:
        os.close(descriptor)
