"""One timing at a time per device, across processes."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from pass_bench.errors import HarnessFailure

# Not TMPDIR: runs that differ in it share the device all the same.
FOLDER = Path("/tmp")


class DeviceLock:
    """Holds a device for a block of trials; released when the process ends, however it ends.

    `waited_s` says how long others were timing. `visible` is the CUDA_VISIBLE_DEVICES that picks the device.
    """

    def __init__(self, device: str, visible: str | None = None):
        if device != "cuda":
            visible = ""
        elif visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        first = visible.split(",")[0] or ("0" if device == "cuda" else "")  # what graphs run on
        name = "".join(char if char.isalnum() else "-" for char in f"{device}-{first}".strip("-"))
        self._path = FOLDER / f"passnet-{name}.lock"
        self._descriptor = -1
        self.waited_s = 0.0

    def __enter__(self) -> DeviceLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Wait until nobody else holds the device. Raises HarnessFailure."""
        start = time.monotonic()
        self._descriptor = _open_for_all(self._path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self.waited_s = time.monotonic() - start

    def release(self) -> None:
        """Let the next one have it."""
        os.close(self._descriptor)


def _open_for_all(path: Path) -> int:
    """Open a lock that any user may hold; flock needs no write access, so reading another's file will do."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HarnessFailure(f"{path}: cannot be opened as a lock: {error.strerror}") from None
        try:
            # O_EXCL: the kernel refuses O_CREAT on another user's file in a folder like /tmp.
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise HarnessFailure(f"{path}: cannot be made: {error.strerror}") from None
        try:
            os.fchmod(descriptor, 0o666)  # whatever the umask
        except PermissionError:
            pass
        return descriptor
