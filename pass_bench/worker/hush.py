"""While one graph is timed, the children of all others stand still; no torch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from pass_bench.worker.cores import Cores
from pass_bench.worker.processes import Child


class Hush:
    """The children of the graphs in work on one device.

    Compilation on neighbouring cores and kernels of other processes slow a call of 50 us down by half and
    more, so they are stopped (SIGSTOP) for the fraction of a second that trials take. Work that they have
    given to the device before goes on. Graphs that prepare go on too: else the next one is never ready, and
    starting processes and compiling leave the device alone, but for one call. `enabled` False stops nobody.
    With `cores`, the children of the timed graph have some processors for themselves meanwhile.
    """

    def __init__(self, enabled: bool = True, cores: Cores | None = None):
        self._enabled = enabled
        self.cores = cores
        self._lock = threading.Lock()
        self._children: dict[Child, object] = {}
        self._preparing: set[object] = set()
        self._holder: object | None = None

    @contextlib.contextmanager
    def member(self, child: Child, owner: object) -> Iterator[None]:
        """Count a child among those of `owner`, the graph that it works for."""
        with self._lock:
            self._children[child] = owner
            if self._must_be_still(owner):
                child.pause()
        try:
            yield
        finally:
            with self._lock:
                del self._children[child]
                child.resume()

    def _must_be_still(self, owner: object) -> bool:
        return self._holder is not None and self._holder is not owner and owner not in self._preparing

    @contextlib.contextmanager
    def preparing(self, owner: object) -> Iterator[None]:
        """Let the children of `owner` go on inside, whoever is timed."""
        with self._lock:
            self._preparing.add(owner)
        try:
            yield
        finally:
            with self._lock:
                self._preparing.discard(owner)
                for child, whose in self._children.items():
                    if whose is owner and self._must_be_still(owner):
                        child.pause()

    @contextlib.contextmanager
    def others_still(self, owner: object) -> Iterator[None]:
        """Stop every child that is not the owner's; the caller holds the device."""
        mine = [child for child, whose in list(self._children.items()) if whose is owner]
        if self.cores is None:
            with self._stopped(owner):
                yield
            return
        for child in mine:
            child.run_on(self.cores.timed, self.cores.main)
        try:
            with self._stopped(owner):
                yield
        finally:
            for child in mine:
                child.run_on(self.cores.rest)

    @contextlib.contextmanager
    def _stopped(self, owner: object) -> Iterator[None]:
        if not self._enabled:
            yield
            return
        with self._lock:
            self._holder = owner
            for child, whose in self._children.items():
                if self._must_be_still(whose):
                    child.pause()
        try:
            yield
        finally:
            with self._lock:
                self._holder = None
                for child in self._children:
                    child.resume()
