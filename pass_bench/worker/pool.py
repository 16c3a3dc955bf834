"""Trusted workers that stay warm between graphs, since CUDA takes long to start; no torch.

A driver starts a handful of CUDA processes a second on a whole host, however many GPUs and cores that has
(4.2 on two H100s with 32 cores), and holds up its other calls meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from pass_bench.errors import HarnessFailure
from pass_bench.worker.messages import (
    CandidateReply,
    CandidateRequest,
    Done,
    ForgetRequest,
    ReferenceReply,
    ReferenceRequest,
)
from pass_bench.worker.processes import Child, ChildDied, ZygoteProcess
from pass_bench.worker.protocol import PeerTimeout, ProtocolError

MOST_GRAPHS = 50  # then a fresh one: what leaks stays small
FORGET_TIMEOUT_S = 30.0


@dataclass
class Loan:
    """A worker for one graph; it is used again only if `sound` is set at the end."""

    child: Child
    sound: bool = False


class Pool:
    """Lends workers of one role to the threads that evaluate graphs; never one that has seen a pass.

    One that saw anything go wrong is ended: a failed device assertion poisons a CUDA context for good.
    """

    def __init__(self, zygote: ZygoteProcess, role: Literal["reference", "candidate"]):
        self._zygote = zygote
        self._role = role
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
            if self._forgot(child):
                return child, graphs
            child.kill()
        return self._zygote.fork(self._role), 0

    def _forgot(self, child: Child) -> bool:
        """Whether it has freed what it held, and lives."""
        kind: type[ReferenceReply | CandidateReply] = CandidateReply
        if self._role == "reference":
            kind = ReferenceReply
        try:
            envelope, _ = child.receive(kind, time.monotonic() + FORGET_TIMEOUT_S)
        except (ChildDied, PeerTimeout, ProtocolError):
            return False
        return isinstance(envelope.reply, Done) and child.alive

    def _give_back(self, child: Child, graphs: int) -> None:
        """Have it free what it holds; the answer is read before it is lent again."""
        envelope = ReferenceRequest if self._role == "reference" else CandidateRequest
        try:
            child.send(envelope(request=ForgetRequest()))
        except ChildDied:
            child.kill()
            return
        with self._lock:
            self._idle.append((child, graphs))

    def add(self, child: Child) -> None:
        """Take one in that was forked elsewhere and has done nothing that a graph must not follow."""
        self._give_back(child, 0)

    def shrink(self) -> None:
        """End an idle one, if there is one."""
        with self._lock:
            idle = self._idle.pop(0)[0] if self._idle else None
        if idle is not None:
            _kill(idle)

    def close(self) -> None:
        """End those that are idle, all at once: one with a CUDA context takes some tenths of a second."""
        with self._lock:
            idle, self._idle = self._idle, []
        if idle:
            with ThreadPoolExecutor(len(idle)) as threads:
                list(threads.map(_kill, (child for child, _ in idle)))


def _kill(child: Child) -> None:
    with contextlib.suppress(HarnessFailure):
        child.kill()
