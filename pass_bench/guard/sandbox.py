"""The box that a child puts itself into before it loads a pass."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pass_bench.errors import HarnessFailure
from pass_bench.guard import filesystem, landlock, limits, namespaces, seccomp
from pass_bench.guard.limits import Limits
from pass_bench.guard.syscalls import call, prctl

Mode = Literal["require", "auto", "off"]
ALL_NAMESPACES = ("user", "mount", "pid", "net", "ipc")
WITHOUT_USER = ("mount", "pid", "net", "ipc")  # root needs no user namespace for the others
WITHOUT_PID = ("user", "mount", "net", "ipc")

_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL, _PR_SET_NO_NEW_PRIVS = 24, 47, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522
FIRST_PRIVATE_UID = 1_000_000_000  # far above what distributions hand out


@dataclass(frozen=True)
class SandboxSpec:
    """What a child may see and use.

    `read_only` and `writable` are host paths shown at their own places; `writable` ones must exist and are
    for caches that belong to one pass set. `keep_fds` stay open beside 0, 1 and 2. `environment` replaces
    the child's whole environment. `uid` is what a child of a root harness becomes outside; None picks one
    that no account has, from the process id.
    """

    mode: Mode = "auto"
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    keep_fds: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    uid: int | None = None


@dataclass(frozen=True)
class SandboxReport:
    """What the box is made of.

    `level`: "namespaces" (all five, and the rest), "partial" (some namespaces missing), "filters" (Landlock
    or seccomp only), "plain" (limits and environment only), "off".
    """

    level: Literal["namespaces", "partial", "filters", "plain", "off"]
    namespaces: tuple[str, ...] = ()
    landlock: int = 0
    seccomp: bool = False
    uid: int = 0
    warnings: tuple[str, ...] = ()


def enter(spec: SandboxSpec) -> SandboxReport:
    """Put the calling process (a fresh fork, single-threaded) into the box; call it before loading a pass.

    With namespaces the caller stays behind as a waiter that ends as the boxed process ends, and the boxed
    process, a descendant, is the one in which this function returns: kill the caller to kill everything.
    Mode `require` raises HarnessFailure unless all five namespaces and seccomp are in force; `auto` takes
    what there is and says what is missing in `warnings`; `off` only clears the environment and closes
    descriptors.
    """
    with contextlib.suppress(OSError):
        namespaces.die_with_parent()
    os.environ.clear()
    os.environ.update(spec.environment)
    _close_descriptors(spec.keep_fds)
    if spec.mode == "off":
        return SandboxReport("off", uid=os.geteuid(), warnings=("the sandbox is off",))
    warnings: list[str] = []
    uid, gid = _identity(spec, warnings)
    entered = _enter_namespaces(spec, uid, gid, warnings)
    if "mount" in entered:  # the harness's TMPDIR is not there, or only as a path to what is bound
        os.environ["TMPDIR"] = "/tmp"
        tempfile.tempdir = None
    if spec.mode == "require" and set(entered) != set(ALL_NAMESPACES):
        raise HarnessFailure(f"--sandbox require: {'; '.join(warnings)}")
    if "user" not in entered:
        _become(uid, gid)
    limits.apply(spec.limits)
    _drop_capabilities()
    version = _enter_landlock(spec, entered, warnings)
    filtered = _enter_seccomp(entered, warnings)
    if spec.mode == "require" and not filtered:
        raise HarnessFailure(f"--sandbox require: {'; '.join(warnings)}")
    if set(entered) == set(ALL_NAMESPACES):
        level: Literal["namespaces", "partial", "filters", "plain"] = "namespaces"
    else:
        level = "partial" if entered else ("filters" if version or filtered else "plain")
    return SandboxReport(level, entered, version, filtered, uid, tuple(warnings))


def _identity(spec: SandboxSpec, warnings: list[str]) -> tuple[int, int]:
    """User and group outside: a root harness gives the child an id that owns nothing.

    Root's own id, even without capabilities, may write what root owns and escapes RLIMIT_NPROC.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        return uid, gid
    wanted = spec.uid if spec.uid is not None else FIRST_PRIVATE_UID + os.getpid()
    closed = not filesystem.readable_by_all([*filesystem.runtime_dirs(), *spec.read_only])
    locked = [p for p in filesystem.gpu_devices() if p.is_char_device() and p.stat().st_mode & 0o006 != 0o006]
    if closed or locked:
        what = f"{locked[0]} is" if locked else "files of the pass or of Python are"
        warnings.append(f"{what} only for root: the pass keeps the uid of root, without its capabilities")
        for path in spec.writable:
            _give(path, uid)
        return uid, gid
    for path in spec.writable:
        _give(path, wanted)
    return wanted, wanted


def _give(path: Path, uid: int) -> None:
    for entry in (path, *path.rglob("*")):
        if entry.lstat().st_uid != uid:
            os.lchown(entry, uid, uid)


def _enter_namespaces(spec: SandboxSpec, uid: int, gid: int, warnings: list[str]) -> tuple[str, ...]:
    def build() -> None:
        filesystem.build_root(
            Path(tempfile.mkdtemp(prefix="passnet-root-", dir="/tmp")),
            read_only=spec.read_only,
            writable=spec.writable,
            tmp_bytes=spec.limits.tmp,
        )

    built, outside = False, os.getpid()
    if os.geteuid() == 0:
        # Paths through folders that only root may enter can be bound by root alone, so before the ids change.
        try:
            call("unshare", namespaces.CLONE_NEWNS)
            build()
            built = True
        except OSError as error:
            warnings.append(f"no private root: {error.strerror or error}")
    for kinds in (ALL_NAMESPACES, WITHOUT_PID) if not built else (ALL_NAMESPACES, WITHOUT_USER, WITHOUT_PID):

        def prepare(kinds: tuple[str, ...] = kinds) -> None:
            if not built:
                build()
            if "pid" in kinds:
                filesystem.mount_proc(next_pid=outside)

        problem = namespaces.fork_into(kinds, uid=uid, gid=gid, prepare=prepare, close_fds=spec.keep_fds)
        if not problem:
            return kinds
        warnings.append(f"no {'+'.join(kinds)} namespaces: {problem}")
    return ("mount",) if built else ()


def _become(uid: int, gid: int) -> None:
    """Give up root where there is no user namespace to give it up in."""
    if os.geteuid() != 0 or uid == 0:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    namespaces.die_with_parent()  # the change of ids cleared it


def _drop_capabilities() -> None:
    with contextlib.suppress(OSError):
        prctl(_PR_CAP_AMBIENT, _CLEAR_ALL)
    for capability in range(64):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break
    header = (_CAPABILITY_VERSION_3).to_bytes(4, "little") + bytes(4)
    with contextlib.suppress(OSError):
        call("capset", header, bytes(24))
    with contextlib.suppress(OSError):
        prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _enter_landlock(spec: SandboxSpec, entered: tuple[str, ...], warnings: list[str]) -> int:
    system = [Path(name) for name in (*filesystem.SYSTEM_DIRS, *filesystem.SYSFS, "/proc")]
    etc = [Path("/etc") / name for name in (*filesystem.ETC, "passwd", "group")]
    scratch = [Path("/tmp"), Path("/dev/shm")] if "mount" in entered else _own_tmp(spec)
    try:
        return landlock.restrict(
            read=[*system, *etc, *filesystem.runtime_dirs(), *spec.read_only, Path("/dev/fd")],
            write=[*scratch, *spec.writable],
            # CUDA names its threads through /proc/self/task and fails (error 304) where it may not. A new pid
            # namespace has only the pass's own processes there, and what belongs to the machine is read-only.
            change=[Path("/proc") if "pid" in entered else Path("/proc/self/task")],
            devices=[
                *(Path("/dev") / name for name in filesystem.DEVICES),
                *filesystem.gpu_devices(),
                *(() if "mount" in entered else (Path("/dev/shm"),)),
            ],
        )
    except OSError as error:
        warnings.append(f"no Landlock: {error.strerror or error}")
        return 0


def _own_tmp(spec: SandboxSpec) -> list[Path]:
    """Without a mount namespace the child's temporary files go below its first writable folder."""
    if not spec.writable:
        return []
    folder = spec.writable[0] / "tmp"
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return [folder]


def _enter_seccomp(entered: tuple[str, ...], warnings: list[str]) -> bool:
    try:
        seccomp.install(pid_namespace="pid" in entered, ipc_namespace="ipc" in entered)
    except OSError as error:
        warnings.append(f"no seccomp filter: {error.strerror or error}")
        return False
    return True


def _close_descriptors(keep: tuple[int, ...]) -> None:
    kept = sorted({0, 1, 2, *keep})
    for low, high in zip(kept, [*kept[1:], 1 << 20], strict=True):
        os.closerange(low + 1, high)
