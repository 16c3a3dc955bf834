"""What children print, bounded and never parsed; no torch."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import deque

CAP_BYTES = 1 << 20
PIECE_BYTES = 1 << 16


class Output:
    """Collects what a child prints: the last MiB; the rest is read and dropped, so that nobody blocks."""

    def __init__(self, read_end: int):
        self._descriptor = read_end
        with contextlib.suppress(OSError):  # over the user's limit: the usual 64 KiB will do
            fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, CAP_BYTES)  # fewer waits of writer and reader
        # Pieces of at least PIECE_BYTES each, but the last: dropping whole ones costs nothing.
        self._pieces = deque([bytearray()])
        self._kept_bytes = 0
        self._lock = threading.Lock()
        self.total = 0
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        try:
            while data := os.read(self._descriptor, PIECE_BYTES):
                with self._lock:
                    self._keep(data)
        except OSError:
            pass
        finally:
            os.close(self._descriptor)

    def _keep(self, data: bytes) -> None:
        if len(self._pieces[-1]) >= PIECE_BYTES:
            self._pieces.append(bytearray())
        self._pieces[-1] += data
        self.total += len(data)
        self._kept_bytes += len(data)
        while self._kept_bytes - len(self._pieces[0]) >= CAP_BYTES:
            self._kept_bytes -= len(self._pieces.popleft())

    def text(self, wait_s: float = 0.2, after: int = 0) -> str:
        """Return what was kept, less the first `after` bytes; waits a little for the writer to be gone."""
        self._thread.join(wait_s)
        with self._lock:
            kept, total = b"".join(self._pieces), self.total
        new = min(total - after, CAP_BYTES)
        return (kept[-new:] if new > 0 else b"").decode(errors="replace")
