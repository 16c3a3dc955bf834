"""Whether new processes and containers may start; once a run is interrupted none may."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 10.0


class Interrupted(KeyboardInterrupt):
    """The run is over. No Exception, which would be taken for an evaluation that failed, and recorded."""


class Gate:
    """Worker threads pass it to start something; who closes it can end all that runs, and nothing follows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self._starting = 0

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Start something inside; raises Interrupted once the gate is closed."""
        with self._changed:
            if self._closed:
                raise Interrupted
            self._starting += 1
        try:
            yield
        finally:
            with self._changed:
                self._starting -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait for those who are inside."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._starting, PATIENCE_S)
