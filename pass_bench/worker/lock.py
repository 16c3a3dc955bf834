"""One timing at a time per device, across processes."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType


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
        self._path = Path(tempfile.gettempdir()) / f"passnet-{name}.lock"
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
        """Wait until nobody else holds the device."""
        start = time.monotonic()
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        self.waited_s = time.monotonic() - start

    def release(self) -> None:
        """Let the next one have it."""
        os.close(self._descriptor)
