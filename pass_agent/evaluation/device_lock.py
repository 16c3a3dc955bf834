"""One evaluation holds a device alone, across all processes of this machine: a file lock per device."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
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


def find_devices(device: str) -> tuple[str, ...]:
    """The devices to take turns on: GPU indices, or ("cpu",) without a GPU or where `device` is cpu."""
    if device == "cpu" or shutil.which("nvidia-smi") is None:
        return ("cpu",)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip()) or ("cpu",)
    try:
        query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ("cpu",)
    return tuple(line.strip() for line in listed.splitlines() if line.strip()) or ("cpu",)


@contextmanager
def hold_device(devices: Sequence[str], stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the first device that becomes free; the lock goes with the process, however it ends.

    Raises TimeoutError once `stop()` says so.
    """
    folder = lock_folder()
    while True:
        for device in devices:
            handle = os.open(
                folder / f"device-{device.replace('/', '_')}.lock", os.O_RDWR | os.O_CREAT, 0o666
            )
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
