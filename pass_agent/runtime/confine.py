"""Launcher inside new namespaces: the whole file system turns read-only, a few folders excepted.

Run as `python -I -S confine.py RW[:RW...] RO[:RO...] -- command...` below `unshare --mount --pid --fork`.
Standard library only, since it runs before the sample's own environment exists.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 1 << 18, 0x1000
AT_FDCWD, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW = -100, 0x8000, 0x100
SYS_MOUNT_SETATTR = 442
RDONLY = 1

libc = ctypes.CDLL(None, use_errno=True)


class MountAttr(ctypes.Structure):
    """struct mount_attr of mount_setattr(2)."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    as_bytes = [None if value is None else value.encode() for value in (source, target, kind)]
    if libc.mount(*as_bytes, ctypes.c_ulong(flags), None if data is None else data.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def _set_readonly(path: str, readonly: bool, flags: int) -> None:
    attributes = MountAttr(RDONLY if readonly else 0, 0 if readonly else RDONLY, 0, 0)
    size = ctypes.sizeof(attributes)
    result = libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), size)
    if result != 0:
        raise OSError(ctypes.get_errno(), f"mount_setattr {path}: {os.strerror(ctypes.get_errno())}")


def confine(writable: list[str], fixed: list[str]) -> None:
    """Make every mount read-only; then give `writable`, /proc, /dev/shm and /tmp mounts that can be written.

    What is written to /tmp and /dev/shm is private and goes with the last process: pass_bench builds its own
    sandbox in /tmp. `fixed` folders stay read-only even where they lie below /tmp.
    """
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    places = [(folder, os.open(folder, os.O_PATH | os.O_DIRECTORY)) for folder in (*writable, *fixed)]
    _set_readonly("/", True, AT_RECURSIVE)
    _mount("proc", "/proc", "proc", 0)
    _mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777")
    _private_tmp()
    for folder, handle in places:
        _mount(f"/proc/self/fd/{handle}", folder, None, MS_BIND)
        _set_readonly(folder, folder in fixed, 0)
        os.close(handle)


def _private_tmp() -> None:
    """Lay a writable layer over /tmp; boxes and samples below /tmp stay visible through it."""
    upper, work = Path("/dev/shm/.tmp/upper"), Path("/dev/shm/.tmp/work")
    for folder in (upper, work):
        folder.mkdir(parents=True)
    upper.chmod(0o1777)
    _mount("overlay", "/tmp", "overlay", 0, f"lowerdir=/tmp,upperdir={upper},workdir={work}")


def main() -> None:
    split = sys.argv.index("--")
    writable, fixed = ([folder for folder in text.split(":") if folder] for text in sys.argv[1:3])
    confine(writable, fixed)
    # Mounts made above count only for paths looked up anew.
    os.chdir(Path.cwd())
    sys.exit(run(sys.argv[split + 1 :]))


def run(command: list[str]) -> int:
    """Run the command as a child, as the first process should: it reaps orphans and ends with the child.

    Returns its exit code, 128 + N after signal N. The kernel then ends everything else in the namespace.
    """
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(127)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
