"""The folder of what a run's passes compile: it goes with its run, however that ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "passnet-caches-"
ATTEMPTS = 5  # where nothing can be locked, nothing is taken for abandoned either


class CacheFolder:
    """A new folder below the one for temporary files; those of runs that were killed are removed first.

    The run holds a lock on it, which the kernel takes back when its process ends.
    """

    def __init__(self) -> None:
        _remove_abandoned()
        for _ in range(ATTEMPTS):  # another run may take it for abandoned before the lock is there
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._descriptor = _lock(self.path)
            if self._descriptor is not None:
                break
        self.path.chmod(0o755)

    def close(self) -> None:
        """Remove the folder; more than once is fine."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        descriptor = _lock(path)
        if descriptor is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """Lock a folder; None where it is gone, is another user's or another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink and os.fstat(descriptor).st_uid == os.geteuid():
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
