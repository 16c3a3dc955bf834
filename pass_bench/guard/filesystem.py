"""The private root of the sandbox: read-only binds of what Python, torch and a compiler need."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import pass_bench
from pass_bench.guard.syscalls import call

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
_AT_FDCWD, _AT_RECURSIVE, _MNT_DETACH = -100, 0x8000, 2
_ATTR_RDONLY, _ATTR_NOSUID = 1, 2

SYSTEM_DIRS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "nsswitch.conf", "OpenCL")
SYSFS = ("/sys/devices", "/sys/bus", "/sys/class", "/sys/module", "/sys/kernel/mm")
BESIDE_BIN = ("lib", "lib64", "libexec", "include", "share")
DEVICES = ("null", "zero", "full", "random", "urandom")
HIDDEN_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def runtime_dirs() -> tuple[Path, ...]:
    """Directories outside the system's own that the interpreter, its packages and the toolchain live in.

    A folder of `sys.path` that holds the pass_bench package is narrowed to the package: beside it lie
    samples, results and whatever else a checkout holds.
    """
    package = Path(pass_bench.__file__).resolve().parent
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), package]
    homes = _home()
    never = (package, homes, Path.cwd(), Path("/tmp"), Path("/dev/shm"))
    found += [
        Path(entry)
        for entry in sys.path
        if entry and not any(p.is_relative_to(Path(entry).resolve()) for p in never)
    ]
    for variable in ("PATH", "LD_LIBRARY_PATH"):
        for entry in os.environ.get(variable, "").split(":"):
            if entry and not Path(entry).is_relative_to(homes):
                found.append(Path(entry))
                if Path(entry).name == "bin":  # a compiler in /opt/gcc/bin needs what lies beside it
                    found += [Path(entry).parent / name for name in BESIDE_BIN]
    found += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    both = [spelling for path in found for spelling in (path.absolute(), path.resolve())]
    return tuple(
        dict.fromkeys(
            p for p in both if len(p.parts) > 1 and not _is_system(p) and os.access(p, os.X_OK) and p.is_dir()
        )
    )


def gpu_devices() -> tuple[Path, ...]:
    """Device nodes and folders of NVIDIA GPUs."""
    return tuple(sorted(Path("/dev").glob("nvidia*")))


def build_root(root: Path, *, read_only: Iterable[Path], writable: Iterable[Path], tmp_bytes: int) -> None:
    """Mount the private root at `root`, make it the caller's root, and remove the folder `root`.

    The caller owns a new mount namespace. /tmp and /dev/shm are empty and private, at most `tmp_bytes` each;
    /proc is still the old one. Raises OSError where the kernel refuses a step.
    """
    os.umask(0o022)
    mount(None, Path("/"), None, MS_REC | MS_PRIVATE)
    mount(b"tmpfs", root, b"tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={64 << 20}")
    for name in SYSTEM_DIRS:
        _system_dir(root, Path(name))
    etc = root / "etc"
    etc.mkdir()
    for name in ETC:
        bind(Path("/etc") / name, root)
    (etc / "passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")
    (etc / "group").write_text("root:x:0:\n")
    for name in SYSFS:
        bind(Path(name), root)
    _devices(root, tmp_bytes)
    (root / "tmp").mkdir()
    mount(b"tmpfs", root / "tmp", b"tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={tmp_bytes}")
    (root / "proc").mkdir()
    mount(b"/proc", root / "proc", None, MS_BIND | MS_REC)
    for path in _outermost([*runtime_dirs(), *read_only]):
        bind(path, root)
    for path in writable:
        bind(path, root, read_only=False)
    # writes go to /tmp, /dev/shm and `writable` only, each a mount of its own
    mount(None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    outside = os.open(root.parent, os.O_PATH | os.O_DIRECTORY)
    os.chdir(root)
    call("pivot_root", b".", b".")
    call("umount2", b".", _MNT_DETACH)
    os.rmdir(root.name, dir_fd=outside)
    os.close(outside)
    os.chdir("/tmp")


def mount_proc(next_pid: int) -> None:
    """Mount /proc anew: the caller is in a new pid namespace, and forks next what is to have that pid.

    Where the kernel lets nobody choose, it has another one. Libraries name temporary files after the pid, and
    were it 2 in every box, boxes that share a cache would write into each other's.
    """
    proc = Path("/proc")
    mount(b"proc", proc, b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    with contextlib.suppress(OSError):
        (proc / "sys/kernel/ns_last_pid").write_text(str(next_pid - 1))
    for name in HIDDEN_PROC:  # writable by uid 0 of the machine, whatever capabilities it lacks
        if (proc / name).exists():
            mount(os.fsencode(proc / name), proc / name, None, MS_BIND | MS_REC)
            _make_read_only(proc / name)


def mount(source: bytes | None, target: Path, kind: bytes | None, flags: int, data: str = "") -> None:
    """Call mount(2); raises OSError naming the target."""
    try:
        call("mount", source, os.fsencode(target), kind, flags, data.encode() if data else None)
    except OSError as error:
        raise OSError(error.errno, f"mount {target}: {os.strerror(error.errno or 0)}") from None


def bind(path: Path, root: Path, *, read_only: bool = True) -> None:
    """Show `path`, if it exists, at the same place below `root`, with all mounts below it."""
    if not os.access(path, os.F_OK):  # Path.exists raises where a parent folder is closed to us
        return
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    mount(os.fsencode(path), target, None, MS_BIND | MS_REC)
    if read_only:
        _make_read_only(target)


def _make_read_only(target: Path) -> None:
    attributes = _MountAttributes(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    try:
        call(
            "mount_setattr",
            _AT_FDCWD,
            os.fsencode(target),
            _AT_RECURSIVE,
            attributes,
            ctypes.sizeof(attributes),
        )
    except (
        OSError
    ):  # before Linux 5.12: one mount at a time, keeping the flags that the namespace may not drop
        kept = os.statvfs(target).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def _system_dir(root: Path, path: Path) -> None:
    if path.is_symlink():
        (root / path.name).symlink_to(path.readlink())
    else:
        bind(path, root)


def _devices(root: Path, tmp_bytes: int) -> None:
    dev = root / "dev"
    dev.mkdir()
    for name in DEVICES:
        bind(Path("/dev") / name, root, read_only=False)
    for path in gpu_devices():
        bind(path, root, read_only=False)
    (dev / "fd").symlink_to("/proc/self/fd")
    (dev / "shm").mkdir(mode=0o1777)
    mount(b"tmpfs", dev / "shm", b"tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777,size={tmp_bytes}")


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """Drop paths that lie below another one, so that nothing is bound twice."""
    kept: list[Path] = []
    for path in sorted({p for p in paths if os.access(p, os.F_OK)}, key=lambda p: len(p.parts)):
        if not any(path.is_relative_to(parent) for parent in kept):
            kept.append(path)
    return kept


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(name) for name in SYSTEM_DIRS)


def _home() -> Path:
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/nonexistent")


def readable_by_all(paths: Iterable[Path]) -> bool:
    """Whether a user who owns nothing could read these files and what lies directly in these folders."""
    for path in paths:
        entries = [path, *path.iterdir()] if path.is_dir() else [path]
        for entry in entries:
            try:
                mode = entry.stat().st_mode
            except OSError:
                continue
            wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
            if mode & wanted != wanted:
                return False
    return True
