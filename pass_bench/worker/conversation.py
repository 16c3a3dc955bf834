"""The supervisor's talk with the children of a graph: answers are checked, silence is a verdict; no torch."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pass_bench.errors import HarnessFailure
from pass_bench.guard.processes import CpuAccount, MemoryWatch, cpu_account, running_threads, settle
from pass_bench.results.records import EvalSettings, Regime
from pass_bench.results.verdict import Verdict
from pass_bench.worker.descriptors import check_descriptor
from pass_bench.worker.messages import (
    CandidateReply,
    CandidateRequest,
    Compared,
    CompareRequest,
    Drawn,
    DrawRequest,
    Fault,
    GuardDone,
    GuardRequest,
    KeptDone,
    KeptRequest,
    Payload,
    ReferenceReply,
    ReferenceRequest,
    RunDone,
    RunRequest,
    TimeReply,
    TimeRequest,
)
from pass_bench.worker.outcome import Stop, rejected, stop_of
from pass_bench.worker.processes import Child, ChildDied
from pass_bench.worker.protocol import PeerTimeout, ProtocolError

RECORDED_SEED = 123  # the replay rules fix it
REDRAWS = 4
SPIN_S = 0.005  # OpenMP's threads spin for 3.5 ms after their work
GLANCE_EVERY_S = 0.003
LOG_TAIL_CHARS = 4000
R = TypeVar("R")


@dataclass(frozen=True)
class Timed:
    """A block of trials: the answer, nanoseconds on our own clock, the kernel's account meanwhile."""

    reply: TimeReply
    wall_ns: int
    cpu: CpuAccount
    descriptors: tuple[int, ...]


class Conversation:
    """Requests to the reference, which is trusted, and to the candidate, which is not.

    Every method may raise Stop; HarnessFailure where the reference talks nonsense.
    """

    def __init__(self, settings: EvalSettings, device: str, reference: Child):
        self._settings = settings
        self._device = device
        self._reference = reference
        self._candidate: Child | None = None
        self._watch: MemoryWatch | None = None
        self._pending = 0
        self._faulty = False
        self._paused_before = reference.paused_s
        self._silent_since: float | None = None  # the candidate, which has answered everything
        self.glances: list[
            int
        ] = []  # threads of it that ran at moments without a request, since it was timed
        self.deadline = time.monotonic() + settings.timeout_s

    def with_candidate(self, candidate: Child) -> None:
        """Talk to this candidate from now on."""
        self._candidate = candidate

    def watch_memory(self) -> MemoryWatch:
        """Return a watch over the candidate, to be entered once it stands in its box."""
        assert self._candidate is not None
        self._watch = MemoryWatch(self._candidate.pid, self._settings.memory_limit_bytes)
        return self._watch

    @property
    def pid(self) -> int:
        """Process id of the candidate."""
        assert self._candidate is not None
        return self._candidate.pid

    @property
    def reference_sound(self) -> bool:
        """Whether the reference has answered everything, and nothing failed in it."""
        return not self._pending and not self._faulty

    # ---- the reference

    def reference_send(self, request: Any) -> None:
        """Send without waiting."""
        self._send_reference(request)

    def reference_reply(self) -> Any:
        """Wait for an answer; its faults are verdicts of their own."""
        return self._trusted(self._reference_message())

    def reference_ask(self, request: Any) -> Any:
        """Send and wait."""
        self.reference_send(request)
        return self.reference_reply()

    def draw(
        self, regime: Regime, seed: int | None = None, nudge: int | None = None, light: bool = False
    ) -> Drawn:
        """Have the reference draw inputs and run eager on them; without a seed a secret one."""
        if regime == "recorded":
            request = DrawRequest(regime=regime, seed=RECORDED_SEED, nudge=nudge, light=light)
        elif seed is not None:
            request = DrawRequest(regime=regime, seed=seed, light=light)
        else:
            request = DrawRequest(regime=regime, seed=secrets.randbelow(2**31), redraws=REDRAWS, light=light)
        drawn: Drawn = self.reference_ask(request)
        return drawn

    def compare(
        self, payload: Payload | None, descriptors: Sequence[int], drawn: Drawn, enough: int | None = None
    ) -> Compared:
        """Have the reference compare what a candidate sent with the last draw (`enough`: CompareRequest)."""
        if payload is None or len(descriptors) != 1:
            raise rejected("protocol", f"{len(descriptors)} descriptors beside the outputs")
        try:
            check_descriptor(descriptors[0], payload, drawn.payload_bytes)
        except ProtocolError as error:
            raise rejected("protocol", str(error)) from None
        self._send_reference(CompareRequest(payload=payload, enough=enough), tuple(descriptors))
        answer = self._reference_message()
        if isinstance(answer, Fault) and answer.fault == "runtime_fail":
            raise rejected("protocol", answer.reason)
        compared: Compared = self._trusted(answer)
        return compared

    def _reference_deadline(self) -> float:
        """The time for which the process was stopped does not count."""
        return self.deadline + self._reference.paused_s - self._paused_before

    def _candidate_deadline(self) -> float:
        return self.deadline + (0.0 if self._candidate is None else self._candidate.paused_s)

    def _send_reference(self, request: Any, descriptors: tuple[int, ...] = ()) -> None:
        self._pending += 1
        try:
            self._reference.send(ReferenceRequest(request=request), descriptors)
        except ChildDied as death:
            raise Stop(Verdict.EAGER_FAIL, f"eager's process {death.how}") from None

    def _reference_message(self) -> Any:
        try:
            envelope, descriptors = self._reference.receive(ReferenceReply, self._reference_deadline)
        except PeerTimeout:
            raise Stop(
                Verdict.EAGER_FAIL, f"eager did not end within {self._settings.timeout_s:g} s"
            ) from None
        except ChildDied as death:
            raise Stop(Verdict.EAGER_FAIL, f"eager's process {death.how}") from None
        except ProtocolError as error:
            raise HarnessFailure(f"the reference worker sent nonsense: {error}") from None
        close(descriptors)
        self.glance()
        self._pending -= 1
        self._faulty = self._faulty or isinstance(envelope.reply, Fault)
        return envelope.reply

    def glance(self) -> None:
        """See whether the candidate does anything while nothing is asked of it."""
        if self._silent_since is None or time.monotonic() - self._silent_since < SPIN_S:
            return
        running = running_threads(self.pid)
        if running is not None:
            self.glances.append(running)
        self._silent_since = time.monotonic() - SPIN_S + GLANCE_EVERY_S

    def _trusted(self, reply: Any) -> Any:
        if isinstance(reply, Fault):
            verdict = Verdict.EAGER_FAIL if reply.fault == "eager_fail" else Verdict.INFRA
            raise Stop(verdict, reply.reason, reply.detail)
        return reply

    # ---- the candidate

    def send(self, request: Any, what: str = "working") -> None:
        """Send a request to the candidate; `what` it is for, in words."""
        assert self._candidate is not None
        self._silent_since = None
        try:
            self._candidate.send(CandidateRequest(request=request), deadline=self._candidate_deadline)
        except ChildDied as death:
            raise self._death(death, what) from None
        except PeerTimeout:
            raise Stop(Verdict.TIMEOUT, f"took no request before the limit, while {what}") from None

    def reply(self, what: str, kind: type[R], believed: bool = False) -> R:
        """Wait for an answer of one kind; what comes beside it is closed."""
        reply, descriptors = self.reply_beside(what, kind, believed)
        close(descriptors)
        return reply

    def ask(self, request: Any, what: str, kind: type[R], believed: bool = False) -> R:
        """Send and wait."""
        self.send(request, what)
        return self.reply(what, kind, believed)

    def reply_beside(self, what: str, kind: type[R], believed: bool = False) -> tuple[R, tuple[int, ...]]:
        """Wait for an answer and the descriptors beside it, which the caller closes."""
        assert self._candidate is not None
        try:
            envelope, descriptors = self._candidate.receive(CandidateReply, self._candidate_deadline)
        except PeerTimeout:
            limit = f"{self._settings.timeout_s:g} s"
            raise Stop(Verdict.TIMEOUT, f"no answer within {limit}, while {what}") from None
        except ChildDied as death:
            raise self._death(death, what) from None
        except ProtocolError as error:
            raise rejected("protocol", f"while {what}: {error}") from None
        self._silent_since = time.monotonic()
        reply: Any = envelope.reply
        if isinstance(reply, kind):
            return reply, descriptors
        close(descriptors)
        if isinstance(reply, Fault):
            if believed:
                raise Stop(Verdict.INFRA, reply.reason, reply.detail)
            raise stop_of(reply, self._device)
        raise rejected("protocol", f"an answer of the wrong kind, while {what}")

    def run(self, regime: Regime, drawn: Drawn) -> tuple[RunDone, Compared]:
        """Run the candidate on a draw and have the reference compare what it sends."""
        what = f"running on the {regime} inputs"
        self.send(RunRequest(regime=regime, seed=drawn.seed, budget_bytes=drawn.payload_bytes), what)
        done, descriptors = self.reply_beside(what, RunDone)
        try:
            return done, self.compare(done.payload, descriptors, drawn)
        finally:
            close(descriptors)

    def guard(self, request: GuardRequest) -> tuple[GuardDone, tuple[int, ...]]:
        """Run once under guards; the caller closes the descriptors."""
        what = "running under guards"
        self.send(request, what)
        return self.reply_beside(what, GuardDone)

    def kept(self, which: int, budget_bytes: int) -> tuple[KeptDone, tuple[int, ...]]:
        """Ask what a call of the last watched block returned; the caller closes the descriptors."""
        what = "packing the outputs of a timed call"
        self.send(KeptRequest(which=which, budget_bytes=budget_bytes), what)
        return self.reply_beside(what, KeptDone)

    def timed(self, request: TimeRequest) -> Timed:
        """Ask for a block of trials."""
        self.glances.clear()
        settle(self.pid)
        before, start = cpu_account(self.pid), time.perf_counter_ns()
        self.send(request, "being timed")
        reply, descriptors = self.reply_beside("being timed", TimeReply)
        wall = time.perf_counter_ns() - start
        return Timed(reply, wall, cpu_account(self.pid).since(before), descriptors)

    def _death(self, death: ChildDied, what: str) -> Stop:
        assert self._candidate is not None
        tail = self._candidate.stderr.text()[-LOG_TAIL_CHARS:]
        if self._watch is not None and self._watch.exceeded:
            limit = self._settings.memory_limit_bytes / (1 << 30)
            return Stop(
                Verdict.RUNTIME_FAIL, f"the pass used more than {limit:.3g} GiB of memory while {what}", tail
            )
        return Stop(Verdict.RUNTIME_FAIL, f"the process of the pass {death.how} while {what}", tail)


def close(descriptors: Sequence[int]) -> None:
    """Close descriptors that came beside a message."""
    for descriptor in descriptors:
        os.close(descriptor)
