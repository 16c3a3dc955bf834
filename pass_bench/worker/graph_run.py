"""The evaluation of one graph, as the supervisor sees it: it asks two children and judges; no torch."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from pass_bench.results.records import (
    Comparison,
    EnvironmentRecord,
    EvalSettings,
    GraphResult,
    PassReport,
    PeakMemory,
    PhaseTimes,
    Regime,
    RegimeReport,
    Violation,
)
from pass_bench.results.verdict import Verdict
from pass_bench.score.tolerance import BASELINE_T
from pass_bench.timing.throttle import Source
from pass_bench.worker.control import Control, ControlLost, is_forked
from pass_bench.worker.conversation import LOG_TAIL_CHARS, RECORDED_SEED, Conversation
from pass_bench.worker.cpuinfo import busy_warning
from pass_bench.worker.faults import one_line, printable
from pass_bench.worker.hush import Hush
from pass_bench.worker.integrity import GHOSTS_BELOW_NS, Integrity, kept_calls
from pass_bench.worker.lock import DeviceLock
from pass_bench.worker.messages import (
    CandidateJob,
    Compared,
    Drawn,
    DrawRequest,
    Entered,
    MemoryReply,
    MemoryRequest,
    Prepared,
    PrepareRequest,
    ReferenceJob,
    Summary,
    SummaryRequest,
)
from pass_bench.worker.outcome import Stop, accuracy_reason, miss_reason, overall
from pass_bench.worker.pool import Pool
from pass_bench.worker.processes import Child, ZygoteProcess
from pass_bench.worker.trials import Trials


@dataclass
class Draft:
    """What is known of a graph so far."""

    verdict: Verdict | None = None
    reason: str = ""
    detail: str = ""
    violations: tuple[Violation, ...] = ()
    warnings: list[str] = field(default_factory=list)
    passes: tuple[PassReport, ...] = ()
    graph_breaks: int = 0
    regimes: list[RegimeReport] = field(default_factory=list)
    interpreted: bool = False
    weak_at: int | None = None
    e2e: Comparison | None = None
    device_time: Comparison | None = None
    unrewritten: Comparison | None = None
    memory: PeakMemory | None = None
    kernels: tuple[str, ...] = ()
    floor_us: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a field of PhaseTimes."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start


class GraphRun:
    """Runs one graph: prepare, verify, time, look again. `run` never raises for what a pass does."""

    def __init__(
        self,
        zygote: ZygoteProcess,
        job: CandidateJob,
        settings: EvalSettings,
        environment: EnvironmentRecord,
        names: tuple[str, ...],
        uses_passes: bool,
        lock: DeviceLock,
        references: Pool,
        candidates: Pool,
        hush: Hush,
        clock: Source | None = None,
    ):
        self._zygote = zygote
        self._references, self._candidates = references, candidates
        self._hush = hush
        self._clock = clock
        self._job = job
        self._settings = settings
        self._environment = environment
        self._names = frozenset(names)
        self._uses_passes = uses_passes
        self._lock = lock
        self._draft = Draft()
        self._recorded: Drawn | None = None
        self._run_ns = 0  # of the quickest call that was verified
        self._has_unrewritten = False
        self._control: Control | None = None
        self._log = ""

    def run(self, sample: str, listed: str, index: int) -> GraphResult:
        """Return the result; raises HarnessFailure only where our own processes are lost."""
        start = time.monotonic()
        self._preparing = ExitStack()
        self._preparing.enter_context(self._hush.preparing(self))
        with self._preparing, self._references.lend() as loan, self._hush.member(loan.child, self):
            self._talk = Conversation(self._settings, self._job.device, loan.child)
            try:
                with ExitStack() as self._children:
                    with self._draft.phase("start_s"):
                        self._ask_reference_first()
                        candidate = self._children.enter_context(self._candidate())
                    self._children.enter_context(self._hush.member(candidate, self))
                    self._talk.with_candidate(candidate)
                    self._evaluate()
            except Stop as stop:
                self._stop(stop)
            loan.sound = self._talk.reference_sound and self._draft.verdict is not Verdict.REJECTED
        return self._result(sample, listed, index, time.monotonic() - start)

    @contextlib.contextmanager
    def _candidate(self) -> Iterator[Child]:
        """A fresh child, which ends with the graph; a warm one where nothing but the model runs."""
        loan = None
        with ExitStack() as stack:
            if self._job.boxed:
                child = stack.enter_context(self._zygote.fork("candidate"))
            else:
                loan = stack.enter_context(self._candidates.lend())
                child = loan.child
            said = child.stderr.total, child.stdout.total
            try:
                yield child
                if loan is not None:
                    loan.sound = True
            finally:
                if loan is None or not loan.sound:
                    child.kill()
                wait_s = 0.2 if loan is None else 0.0
                self._log = child.stderr.text(wait_s, said[0]) + child.stdout.text(wait_s, said[1])

    # ---- the phases

    def _ask_reference_first(self) -> None:
        """Let the reference load the graph; its first draw goes on while the candidate prepares."""
        job = ReferenceJob(
            graph_path=self._job.graph_path,
            device=self._job.device,
            seed=self._job.seed,
            compat=self._settings.compat,
        )
        self._talk.reference_ask(job)

    def _evaluate(self) -> None:
        with self._draft.phase("prepare_s"):
            drawn = self._prepare()
        self._preparing.close()
        with self._draft.phase("verify_s"):
            for regime in self._scored_regimes():
                self._verify(regime, drawn if regime == "recorded" else None)
                if self._draft.regimes[-1].passes_from is not None and not self._draft.interpreted:
                    self._start_control(drawn)
            self._judge()
        self._earn(drawn)
        with self._draft.phase("report_s"):
            self._summarise()
            if "special" in self._settings.regimes and not self._settings.compat:
                self._special()

    def _prepare(self) -> Drawn:
        """Have the candidate load and compile; returns the reference's draw of the recorded inputs."""
        self._talk.reference_send(DrawRequest(regime="recorded", seed=RECORDED_SEED))
        entered = self._talk.ask(self._job, "entering its box", Entered, believed=True)
        self._draft.warnings.extend(entered.warnings)
        self._children.enter_context(self._talk.watch_memory())
        self._talk.send(PrepareRequest())
        drawn: Drawn = self._talk.reference_reply()
        self._recorded = drawn
        if drawn.outputs == 0 and not drawn.effects:
            raise Stop(Verdict.NOTHING_TO_CHECK, "the graph has no outputs and changes no input")
        if not is_forked(self._job):
            self._start_control(drawn)
        if drawn.nonfinite:
            self._draft.warnings.append("eager's outputs have NaN or inf on the recorded inputs")
        if drawn.unordered:
            names = ", ".join(drawn.unordered)
            self._draft.warnings.append(
                f"eager differs from run to run ({names}): twice its distance from float64 is tolerated too"
            )
        prepared = self._talk.reply("loading and compiling", Prepared)
        self._take(prepared)
        return drawn

    def _start_control(self, drawn: Drawn) -> None:
        """Let the control prepare: a warm one beside the pass, a forked one once an output was right."""
        watched = self._uses_passes and self._settings.guards and not self._settings.compat
        if self._control is None and watched:
            try:
                self._control = self._children.enter_context(
                    Control(self._zygote, self._candidates, self._job, drawn.effects, kept_calls(drawn))
                )
            except ControlLost as error:
                self._draft.warnings.append(f"no control for eager's time: {one_line(str(error), 200)}")
                return
            self._children.enter_context(self._hush.member(self._control.child, self))

    def _earn(self, drawn: Drawn) -> None:
        """Time what ran, and find out on the way whether the result was earned."""
        level = overall([report for report in self._draft.regimes if not report.skipped])
        guarded = self._uses_passes and self._settings.guards and level is not None
        integrity = Integrity(
            self._talk, self._settings, self._job.device, self._environment.device_name, drawn
        )
        if level is not None:
            integrity.verified_at(level)
        # A pass must not know when it is watched; one that seems slow may be so in verified calls only.
        early = bool(secrets.randbelow(2)) and self._run_ns < GHOSTS_BELOW_NS
        with self._draft.phase("guard_s"):
            if guarded and (early or self._draft.interpreted):
                integrity.guarded_call(self._run_ns)
        if self._wants_time():
            self._time(integrity if guarded else None)
            with self._draft.phase("guard_s"):
                if guarded and not early:
                    assert self._draft.e2e is not None
                    integrity.guarded_call(int(1000 * self._draft.e2e.compiled.median_us))
                self._look_again()
        if guarded:
            with self._draft.phase("guard_s"):
                integrity.changes()
            self._take_evidence(integrity)

    def _take_evidence(self, integrity: Integrity) -> None:
        """Put what the checks found into the record; a call slightly outside the tolerance counts."""
        draft, found = self._draft, integrity.evidence
        draft.kernels, draft.floor_us = found.kernels, found.floor_us
        draft.warnings.extend(integrity.warnings)
        if found.doubtful is not None and draft.verdict is Verdict.CORRECT:
            draft.regimes.append(
                RegimeReport(
                    regime=found.doubtful_regime,
                    seed=found.doubtful_seed,
                    passes_from=found.doubtful.passes_from,
                    tensors=found.doubtful.tensors,
                )
            )
            self._judge()

    def _take(self, prepared: Prepared) -> None:
        """Keep what the candidate says about its passes, in bounds."""
        draft = self._draft
        draft.passes = tuple(
            report.model_copy(
                update={
                    "nearest_miss": printable(report.nearest_miss)[:4000],
                    "skipped": one_line(report.skipped),
                }
            )
            for report in prepared.passes
            if report.name in self._names
        )
        draft.graph_breaks = prepared.graph_breaks
        draft.warnings.extend(one_line(warning) for warning in prepared.warnings)
        if prepared.note:
            draft.warnings.append(one_line(prepared.note))
        self._has_unrewritten = prepared.has_unrewritten
        if self._uses_passes and not any(report.replaced for report in draft.passes):
            raise Stop(Verdict.PASS_MISS, miss_reason(draft.passes))

    def _scored_regimes(self) -> list[Regime]:
        if self._settings.compat:
            return ["recorded"]
        rest: list[Regime] = [r for r in self._settings.regimes if r == "random"]
        return ["recorded", *rest]

    def _verify(self, regime: Regime, drawn: Drawn | None) -> None:
        if drawn is None:
            drawn = self._talk.draw(regime)
        if drawn.skipped:
            self._draft.regimes.append(RegimeReport(regime=regime, seed=drawn.seed, skipped=drawn.skipped))
            self._draft.warnings.append(f"no {regime} inputs: {drawn.skipped}")
            return
        try:
            compared = self._compare(regime, drawn)
        except Stop as stop:
            report = RegimeReport(regime=regime, seed=drawn.seed, error=stop.reason)
            self._draft.regimes.append(report)
            raise
        self._draft.regimes.append(
            RegimeReport(
                regime=regime, seed=drawn.seed, passes_from=compared.passes_from, tensors=compared.tensors
            )
        )
        if compared.mismatch:
            verdict = Verdict.SHAPE_MISMATCH if compared.mismatch == "shape" else Verdict.TYPE_MISMATCH
            raise Stop(verdict, f"{regime} inputs: {compared.reason}")

    def _compare(self, regime: Regime, drawn: Drawn) -> Compared:
        """Run the candidate on a draw and have the reference compare what it sends."""
        done, compared = self._talk.run(regime, drawn)
        self._draft.interpreted = self._draft.interpreted or done.interpreted
        if not self._run_ns or done.nanoseconds < self._run_ns:  # the first one may have compiled kernels
            self._run_ns = done.nanoseconds
        return compared

    def _judge(self) -> None:
        """Set the verdict from the scored regimes."""
        draft = self._draft
        compared = [report for report in draft.regimes if not report.skipped and report.regime != "special"]
        level = overall(compared)
        if level is not None and level <= BASELINE_T:
            draft.verdict, draft.reason = Verdict.CORRECT, ""
        else:
            draft.verdict, draft.reason = Verdict.ACCURACY, accuracy_reason(compared, BASELINE_T)

    def _wants_time(self) -> bool:
        if self._draft.interpreted:
            assert self._recorded is not None
            self._draft.warnings.append("Triton ran under its interpreter: the time is not a speed")
            self._draft.e2e = Trials.single(self._recorded.eager_ns, self._run_ns)
            return False
        return overall([r for r in self._draft.regimes if not r.skipped]) is not None

    def _time(self, integrity: Integrity | None) -> None:
        """Take the trials; with `integrity`, beside a control that never loads the pass."""
        assert self._recorded is not None
        watched = integrity if not self._settings.compat else None
        trials = Trials(
            ask=self._talk.timed,
            settings=self._settings,
            device=self._job.device,
            mutated=self._recorded.effects,
            unrewritten=self._has_unrewritten,
            between=watched.between_blocks if watched is not None else None,
            beside=watched.control_block if watched is not None else None,
            clock=self._clock,
            hold=self._hold,
            keep=kept_calls(self._recorded),
        )
        with self._draft.phase("guard_s"):
            trials.warm()
            if watched is not None:
                watched.before_trials(self._control, self._settings.warmup, self._settings.time_budget_s)
        start = time.monotonic()
        try:
            trials.run()
            if watched is not None:
                watched.after_trials(trials)
        finally:
            seconds = self._draft.seconds
            seconds["trials_s"] = trials.spent_s
            held = seconds.get("time_s", 0.0) + seconds.get("wait_s", 0.0)
            seconds["guard_s"] += time.monotonic() - start - held
        with self._draft.phase("report_s"):
            trials.judge()
            self._talk.glance()
        self._draft.e2e = trials.e2e
        self._draft.device_time = trials.device_time
        self._draft.unrewritten = trials.unrewritten
        self._draft.warnings.extend(trials.warnings)
        busy = busy_warning(os.getloadavg()[0], len(os.sched_getaffinity(0)))
        if busy and self._job.device == "cpu":
            self._draft.warnings.append(busy)

    @contextlib.contextmanager
    def _hold(self) -> Iterator[None]:
        """Hold the device, with the children of other graphs standing still; the wait costs no time limit."""
        with self._draft.phase("wait_s"):
            self._lock.acquire()
        try:
            self._talk.deadline += self._lock.waited_s
            with self._draft.phase("time_s"), self._hush.others_still(self):
                yield
        finally:
            self._lock.release()

    def _look_again(self) -> None:
        """Compare once more on new inputs after the trials: call 126 must be as right as call 1."""
        if self._settings.compat:
            return
        regime: Regime = "random" if "random" in self._scored_regimes() else "recorded"
        drawn = self._talk.draw("random", light=True) if regime == "random" else None
        if drawn is None or drawn.skipped:
            drawn, regime = self._talk.draw("recorded", light=True), "recorded"
        compared = self._compare(regime, drawn)
        report = RegimeReport(
            regime=regime, seed=drawn.seed, passes_from=compared.passes_from, tensors=compared.tensors
        )
        before = self._draft.verdict
        if before is Verdict.CORRECT and (compared.passes_from is None or compared.passes_from > BASELINE_T):
            self._draft.regimes.append(report)
            self._judge()
            self._draft.reason = f"right at first, wrong after the timed calls: {self._draft.reason}"[:1000]

    def _special(self) -> None:
        """Look at unusual inputs last: what happens there is reported and never scored."""
        drawn = self._talk.draw("special")
        report = RegimeReport(regime="special", seed=drawn.seed, skipped=drawn.skipped)
        if not drawn.skipped:
            try:
                compared = self._compare("special", drawn)
                error = f"{compared.mismatch} mismatch: {compared.reason}" if compared.mismatch else ""
                report = RegimeReport(
                    regime="special",
                    seed=drawn.seed,
                    passes_from=compared.passes_from,
                    tensors=compared.tensors,
                    error=error,
                )
            except Stop as stop:
                report = RegimeReport(regime="special", seed=drawn.seed, error=stop.reason)
        self._draft.regimes.append(report)

    def _summarise(self) -> None:
        summary: Summary = self._talk.reference_ask(SummaryRequest())
        self._draft.weak_at = summary.weak_at
        if self._draft.interpreted:
            return
        reply = self._talk.ask(MemoryRequest(), "measuring memory", MemoryReply)
        if reply.peak_bytes is not None and summary.eager_peak_bytes is not None:
            self._draft.memory = PeakMemory(
                eager_bytes=summary.eager_peak_bytes, compiled_bytes=reply.peak_bytes
            )

    # ---- the record

    def _stop(self, stop: Stop) -> None:
        draft = self._draft
        draft.verdict, draft.reason, draft.detail = stop.verdict, stop.reason, stop.detail
        draft.violations = stop.violations

    def _result(self, sample: str, listed: str, index: int, total_s: float) -> GraphResult:
        draft = self._draft
        assert draft.verdict is not None
        compared = [r for r in draft.regimes if not r.skipped and r.regime != "special"]
        return GraphResult(
            sample=sample,
            graph=listed,
            index=index,
            compiler=self._settings.compiler,
            device=self._job.device,
            device_name=self._environment.device_name,
            verdict=draft.verdict,
            reason=draft.reason,
            detail=draft.detail,
            violations=draft.violations,
            warnings=tuple(dict.fromkeys(draft.warnings)),
            passes=draft.passes,
            graph_breaks=draft.graph_breaks,
            regimes=tuple(draft.regimes),
            passes_from=overall(compared) if draft.verdict.ran else None,
            nonfinite=any(tensor.nonfinite for report in compared for tensor in report.tensors),
            weak_at=draft.weak_at,
            e2e=draft.e2e,
            device_time=draft.device_time,
            unrewritten=draft.unrewritten,
            interpreted=draft.interpreted,
            memory=draft.memory,
            kernels=draft.kernels,
            floor_us=draft.floor_us,
            log_tail=printable(self._log)[-LOG_TAIL_CHARS:],
            phases=PhaseTimes(**draft.seconds, total_s=total_s),
        )
