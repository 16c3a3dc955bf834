"""One evaluation holds a device alone, across all processes of this machine: a file lock per device."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def lock_folder() -> Path:
    """`PASSAGENT_LOCK_DIR`, or a folder that all users of the machine share."""
    chosen = os.environ.get("PASSAGENT_LOCK_DIR")
    folder = Path(chosen) if chosen else Path(tempfile.gettempdir()) / "passagent-locks"
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o1777)
    return folder


@contextmanager
def hold_device(devices: Sequence[str], stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the first device that becomes free; the lock goes with the process, however it ends.

    Raises TimeoutError once `stop()` says so.
    """
    folder = lock_folder()
    while True:
        for device in devices:
            handle = _open(folder / f"device-{device.replace('/', '_')}.lock")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                continue
            try:
                yield device
            finally:
                os.close(handle)
            return
        if stop():
            raise TimeoutError("no device became free in time")
        time.sleep(0.05)


def _open(path: Path) -> int:
    """Open a lock that another user may have made: flock needs no write access."""
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
