"""A child that never loads the pass: eager's time, and that between timed calls, without it; no torch."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from contextlib import ExitStack
from types import TracebackType

from pass_bench.guard.clock_fit import Block
from pass_bench.guard.processes import CpuAccount, cpu_account, settle
from pass_bench.worker.messages import (
    Arm,
    CandidateJob,
    CandidateReply,
    CandidateRequest,
    Entered,
    Fault,
    Prepared,
    PrepareRequest,
    TimeReply,
    TimeRequest,
)
from pass_bench.worker.pool import Loan, Pool
from pass_bench.worker.processes import Child, ChildDied, ZygoteProcess
from pass_bench.worker.protocol import PeerTimeout, ProtocolError
from pass_bench.worker.trials import RETURN_ROUNDS, new_watch

TIMEOUT_S = 120.0
FEWEST_ROUNDS = 6
# In turns with as many calls as in the pass's process, so that eager finds its caches in the same state.
# Dynamo throws so much out of them that eager takes half as long again: there the other turns go through it.
ARMS: tuple[Arm, ...] = ("eager", "eager", "eager")
BESIDE_DYNAMO: tuple[Arm, ...] = ("eager", "compiled", "compiled")
THROUGH_DYNAMO = ("pass_mgr",)


def is_forked(job: CandidateJob) -> bool:
    """Whether the control of a graph is a process of its own, which takes a while to start."""
    return job.compiler in THROUGH_DYNAMO


class ControlLost(Exception):
    """The control child could not do its work; nothing is said about the pass then."""


class Control:
    """Times eager in a process of its own, a warm one where that is enough. A context manager."""

    def __init__(
        self,
        zygote: ZygoteProcess,
        candidates: Pool,
        job: CandidateJob,
        mutated: tuple[int, ...],
        keep: int = 1,
    ):
        dynamo = is_forked(job)
        self._arms = BESIDE_DYNAMO if dynamo else ARMS
        own = {
            "compiler": job.compiler if dynamo else "nope",
            "with_unrewritten": False,
            "const_pass_dir": None,
            "boxed": dynamo,
        }
        nothing = {"sample_path": "", "pass_dir": "", "cache_dir": ""}
        self._mutated, self._keep = mutated, keep
        self._device = job.device
        self._empty_ns = self._empty_ran_ns = sys.maxsize  # the least so far
        self._unanswered, self._lost = 0, False
        self._stack = ExitStack()
        self._loan: Loan | None = None
        if dynamo:
            self._child = self._stack.enter_context(zygote.fork("candidate"))
        else:
            self._loan = self._stack.enter_context(candidates.lend())
            self._child = self._loan.child
        try:
            self._send(job.model_copy(update=own | nothing))
            self._send(PrepareRequest())
        except ControlLost:
            self._stack.close()
            raise

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loan is not None:
            if kind is not None and not issubclass(kind, Exception):
                self._lost = True  # Ctrl-C waits for nothing
            with contextlib.suppress(ControlLost):
                while self._unanswered and not self._lost:  # a graph may end before its control is asked
                    self._receive()
            self._loan.sound = not self._lost
        self._stack.close()

    @property
    def child(self) -> Child:
        """Its process."""
        return self._child

    def warm(self, rounds: int, budget_s: float) -> None:
        """Wait until it is prepared and warm; raises ControlLost."""
        self._expect(Entered)
        self._expect(Prepared)
        self._ask(0, rounds, budget_s)

    def _look_at_empty(self) -> None:
        _, wall_ns, cpu = self._ask(0, 0, 1.0)
        self._empty_ns = min(self._empty_ns, max(0, wall_ns - cpu.waited_ns))
        self._empty_ran_ns = min(self._empty_ran_ns, cpu.ran_ns)

    def block(
        self, rounds: int, budget_s: float, watch: tuple[int, ...] = (), enough_ns: int = sys.maxsize
    ) -> Block:
        """Time eager in turns with itself for some rounds, alone on the device; raises ControlLost.

        `watch`: the seeds of the contents that inputs take on. The same ones take as long between calls.
        Slow calls, which differ less, get fewer rounds, as many as `enough_ns` allow, but FEWEST_ROUNDS.
        """
        # Cold, it takes longer between calls: room to hide in.
        _, warm_ns, _ = self._ask(0, RETURN_ROUNDS, budget_s)
        allowed = int(enough_ns / max(1.0, warm_ns / RETURN_ROUNDS))
        rounds = min(rounds, max(FEWEST_ROUNDS, allowed))
        self._look_at_empty()
        reply, wall_ns, cpu = self._ask(rounds, 0, budget_s, watch)
        return Block(
            arms=reply.trials,
            wall_ns=wall_ns,
            empty_ns=self._empty_ns,
            waited_ns=cpu.waited_ns,
            ran_ns=cpu.ran_ns if self._device == "cpu" else -1,
            empty_ran_ns=self._empty_ran_ns,
        )

    def _ask(
        self, rounds: int, warmup: int, budget_s: float, watch: tuple[int, ...] = ()
    ) -> tuple[TimeReply, int, CpuAccount]:
        request = TimeRequest(
            watch=watch or new_watch(),  # what that takes between calls is part of the usual
            keep=self._keep,
            arms=self._arms,
            mutated=self._mutated,
            trials=rounds,
            warmup=warmup,
            order_seed=secrets.randbelow(2**31),
            budget_s=budget_s,
            min_trials=min(3, rounds),
        )
        settle(self._child.pid)
        before, start = cpu_account(self._child.pid), time.perf_counter_ns()
        self._send(request)
        reply: TimeReply = self._expect(TimeReply)
        wall = time.perf_counter_ns() - start
        return reply, wall, cpu_account(self._child.pid).since(before)

    def _send(self, request: CandidateJob | PrepareRequest | TimeRequest) -> None:
        self._unanswered += 1
        try:
            self._child.send(CandidateRequest(request=request))
        except ChildDied as death:
            raise self._lose(death.how) from None

    def _expect(self, kind: type) -> TimeReply:
        reply = self._receive()
        if not isinstance(reply, kind):
            raise self._lose(getattr(reply, "reason", type(reply).__name__))
        return reply  # type: ignore[return-value]

    def _lose(self, why: str) -> ControlLost:
        self._lost = True
        return ControlLost(why)

    def _receive(self) -> object:
        try:
            envelope, descriptors = self._child.receive(CandidateReply, time.monotonic() + TIMEOUT_S)
        except (ChildDied, PeerTimeout, ProtocolError) as error:
            raise self._lose(str(error)) from None
        for descriptor in descriptors:
            os.close(descriptor)
        self._unanswered -= 1
        self._lost = self._lost or isinstance(envelope.reply, Fault)
        return envelope.reply
