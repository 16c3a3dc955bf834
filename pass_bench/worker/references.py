"""Reference workers that stay warm between graphs, since CUDA takes 0.3 s to start; no torch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from pass_bench.errors import HarnessFailure
from pass_bench.worker.messages import Done, ForgetRequest, ReferenceReply, ReferenceRequest
from pass_bench.worker.processes import Child, ChildDied, ZygoteProcess
from pass_bench.worker.protocol import PeerTimeout, ProtocolError

MOST_GRAPHS = 50  # then a fresh one: what leaks stays small
FORGET_TIMEOUT_S = 30.0


@dataclass
class Loan:
    """A reference worker for one graph; it is used again only if `sound` is set at the end."""

    child: Child
    sound: bool = False


class References:
    """Lends reference workers to the threads that evaluate graphs; one that saw anything go wrong is ended.

    A failed device assertion poisons a CUDA context for good, and a rejected pass may have attacked.
    """

    def __init__(self, zygote: ZygoteProcess):
        self._zygote = zygote
        self._lock = threading.Lock()
        self._idle: list[tuple[Child, int]] = []

    @property
    def idle_pids(self) -> tuple[int, ...]:
        """The process ids of those that wait for a graph."""
        with self._lock:
            return tuple(child.pid for child, _ in self._idle)

    @contextlib.contextmanager
    def lend(self) -> Iterator[Loan]:
        """Lend one, idle or new; raises HarnessFailure."""
        child, graphs = self._take()
        loan = Loan(child)
        try:
            yield loan
        finally:
            if loan.sound and graphs + 1 < MOST_GRAPHS:
                self._give_back(child, graphs + 1)
            else:
                child.kill()

    def _take(self) -> tuple[Child, int]:
        while True:
            with self._lock:
                if not self._idle:
                    break
                child, graphs = self._idle.pop()
            try:
                envelope, _ = child.receive(ReferenceReply, time.monotonic() + FORGET_TIMEOUT_S)
                if isinstance(envelope.reply, Done) and child.alive:
                    return child, graphs
            except (ChildDied, PeerTimeout, ProtocolError):
                pass
            child.kill()
        return self._zygote.fork("reference"), 0

    def _give_back(self, child: Child, graphs: int) -> None:
        """Have it free what it holds; the answer is read before it is lent again."""
        try:
            child.send(ReferenceRequest(request=ForgetRequest()))
        except ChildDied:
            return
        with self._lock:
            self._idle.append((child, graphs))

    def close(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child, _ in idle:
            with contextlib.suppress(HarnessFailure):
                child.kill()
