"""The untrusted child: enters the sandbox, loads the passes, rewrites, runs and times one graph.

Everything in `pass_dir` runs here, native code included, so nothing this process says is believed: the
supervisor treats its answers as hostile input.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from pass_bench.compilers import CallFailed, Compiled, compiler_named
from pass_bench.data import Graph, read_graph
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.guard.audit import Refill, ranges_of
from pass_bench.guard.audited_inputs import AuditedInputs, Recorder
from pass_bench.guard.guarded_run import Baseline, guarded_run
from pass_bench.guard.watched_inputs import Keeper, WatchedInputs
from pass_bench.results.records import PassReport
from pass_bench.timing.clock import Call
from pass_bench.timing.interleave import FreshInputs, Plan, clone_like, time_block
from pass_bench.verify.compare import changed_inputs
from pass_bench.worker.box import enter_box
from pass_bench.worker.faults import fault_of, one_line
from pass_bench.worker.interpreted import LaunchCounter, unsupported_reason
from pass_bench.worker.memory import peak_bytes, trim
from pass_bench.worker.messages import (
    CandidateJob,
    CandidateReply,
    CandidateRequest,
    Done,
    Entered,
    Fault,
    FaultKind,
    ForgetRequest,
    GuardDone,
    GuardRequest,
    KeptDone,
    KeptRequest,
    Loaded,
    LoadRequest,
    MemoryReply,
    MemoryRequest,
    Prepared,
    PrepareRequest,
    RunDone,
    RunRequest,
    TimeReply,
    TimeRequest,
)
from pass_bench.worker.payload import write_payload
from pass_bench.worker.precompile import tuning_left_out
from pass_bench.worker.protocol import Channel
from pass_bench.worker.reference import make, wait


class Candidate:
    """Holds one graph, compiled with the passes."""

    def __init__(self, keep_descriptor: int):
        self._keep = keep_descriptor
        self._launches = LaunchCounter()
        self._hold_nothing()

    def _hold_nothing(self) -> None:
        self._job: CandidateJob | None = None
        self._graph: Graph | None = None
        self._eager: Callable[..., Any] | None = None
        self._compiled: Compiled | None = None
        self._unrewritten: Compiled | None = None
        self._rules: tuple[Any, ...] = ()
        self._baseline: Baseline | None = None
        self._values: list[Any] | None = None
        self._ranges: dict[int, tuple[float, float]] = {}
        self._keeper: Keeper | Recorder | None = None

    def _forget(self) -> Done:
        """Free everything held for a graph; only one that has run nothing of a pass is asked to."""
        device = "cpu" if self._job is None else self._job.device
        self._hold_nothing()
        trim(device)
        return Done()

    def answer(self, request: Any) -> tuple[Any, int | None]:
        """Return the reply to one request, and the descriptor that goes beside it."""
        try:
            if isinstance(request, CandidateJob):
                return self._enter(request), None
            if isinstance(request, LoadRequest):
                return self._load_only(), None
            if isinstance(request, PrepareRequest):
                with tuning_left_out() if request.compile_only else contextlib.nullcontext():
                    return self._prepare(), None
            if isinstance(request, RunRequest):
                return self._run(request)
            if isinstance(request, MemoryRequest):
                return self._memory(), None
            if isinstance(request, GuardRequest):
                return self._guard(request)
            if isinstance(request, ForgetRequest):
                return self._forget(), None
            if isinstance(request, KeptRequest):
                return self._kept(request)
            return self._time(request)
        except HarnessFailure as error:
            return fault_of(error, "infra"), None
        except Exception as error:
            return self._fault(error, "runtime_fail"), None

    def _fault(self, error: BaseException, kind: FaultKind) -> Fault:
        """Sort an exception: what needs a GPU and what no compiler accepted are not run-time failures."""
        reason = unsupported_reason(error)
        if reason is not None and self._job is not None and self._job.device == "cpu":
            return fault_of(error, "unsupported_on_cpu").model_copy(update={"reason": one_line(reason)})
        if isinstance(error, CallFailed):
            error, kind = error.__cause__ or error, "runtime_fail"
        if kind == "runtime_fail" and is_compile_error(error):
            kind = "compile_fail"
        return fault_of(error, kind)

    def _enter(self, job: CandidateJob) -> Entered:
        """Read the graph, then step into the sandbox: nothing of the pass has run before this returns."""
        from pass_bench.fx import load_module

        self._job = job
        if job.graph_path:
            self._graph = read_graph(Path(job.graph_path))
        warnings = enter_box(job, self._keep) if job.boxed else ()
        if self._graph is not None:
            self._eager = load_module(self._graph, job.device)
        return Entered(warnings=tuple(one_line(warning) for warning in warnings))

    def _load(self) -> tuple[tuple[Any, ...], tuple[PassReport, ...]]:
        from pass_bench.passes import load_passes

        assert self._job is not None
        job = self._job
        sys.path.insert(0, job.sample_path)
        sys.pycache_prefix = "/tmp/passnet-pycache"  # compiled files that lie in pass_dir are not for us
        loaded = load_passes(
            Path(job.pass_dir),
            Path(job.const_pass_dir) if job.const_pass_dir else None,
            job.pattern_limit,
            job.replacement_func_limit,
            job.device,
        )
        return tuple(loaded.rules), tuple(loaded.skipped)

    def _load_only(self) -> Loaded | Fault:
        try:
            rules, skipped = self._load()
        except BadInput as error:
            return Fault(
                fault="bad_input",
                reason=one_line(error.what, 1500),
                file=str(error.path or "")[:2000],
                line=error.line,
                detail=error.expected[:500],
            )
        except Exception as error:
            return self._fault(error, "compile_fail")
        return Loaded(names=tuple(rule.name for rule in rules), skipped=skipped)

    def _prepare(self) -> Prepared | Fault:
        assert self._job is not None
        job = self._job
        warnings: tuple[str, ...] = ()
        compiler = compiler_named(job.compiler)
        rules: tuple[Any, ...] = ()
        skipped: tuple[PassReport, ...] = ()
        try:
            if compiler.uses_passes and job.pass_dir:  # the control has none
                if job.device == "cuda":
                    torch.cuda.synchronize()  # the device's own settings can be read once it has a context
                self._baseline = Baseline(self._graph.code if self._graph is not None else "")
                rules, skipped = self._load()
                self._rules = rules
                if (
                    not rules
                    and job.device == "cpu"
                    and any("DEVICES" in report.skipped for report in skipped)
                ):
                    return Fault(
                        fault="unsupported_on_cpu", reason=f"{skipped[0].name}: {skipped[0].skipped}"[:2000]
                    )
            self._compiled = self._compile(rules)
        except Exception as error:
            return self._fault(error, "compile_fail")
        if job.device == "cuda" and compiler.uses_passes:
            self._warm()
        if compiler.uses_passes and job.with_unrewritten:
            try:
                self._unrewritten = self._compile(())
            except Exception as error:
                warnings = (*warnings, f"the unrewritten graph does not compile: {one_line(str(error), 200)}")
        return Prepared(
            passes=(*self._compiled.reports, *skipped),
            graph_breaks=self._compiled.graph_breaks,
            note=self._compiled.note[:2000],
            warnings=tuple(one_line(warning) for warning in warnings),
            has_unrewritten=self._unrewritten is not None,
        )

    def _compile(self, rules: tuple[Any, ...]) -> Compiled:
        """Compile with a module of its own, so that two `torch.compile` results share no guards."""
        from pass_bench.fx import load_module

        assert self._graph is not None and self._job is not None
        job = self._job
        inputs = make(self._graph, "recorded", 123, job.device)
        compiler = compiler_named(job.compiler)
        module = load_module(self._graph, job.device) if compiler.uses_passes else self._eager
        torch.manual_seed(job.seed)
        return compiler.compile(module, self._graph, inputs, rules, job.device)  # type: ignore[arg-type]

    def _warm(self) -> None:
        """Call once while the device is shared, so that kernels compile before it is held for trials."""
        assert self._graph is not None and self._job is not None and self._compiled is not None
        inputs = make(self._graph, "recorded", 123, self._job.device)
        torch.manual_seed(self._job.seed)
        with torch.no_grad():
            self._compiled.call(*inputs)
            wait(self._job.device)

    def _run(self, request: RunRequest) -> tuple[RunDone, int]:
        assert self._graph is not None and self._job is not None and self._compiled is not None
        device = self._job.device
        inputs = make(self._graph, request.regime, request.seed, device)
        before = [clone_like(value) if isinstance(value, torch.Tensor) else value for value in inputs]
        torch.manual_seed(self._job.seed)
        launches = self._launches.count
        start = time.perf_counter_ns()
        with torch.no_grad():
            outputs = self._compiled.call(*inputs)
            wait(device)
        nanoseconds = max(1, time.perf_counter_ns() - start)
        changed = changed_inputs(before, inputs)
        payload, descriptor = write_payload(outputs, inputs, changed, request.budget_bytes)
        interpreted = self._launches.count > launches
        return RunDone(payload=payload, interpreted=interpreted, nanoseconds=nanoseconds), descriptor

    def _memory(self) -> MemoryReply:
        assert self._graph is not None and self._job is not None and self._compiled is not None
        inputs = make(self._graph, "recorded", 123, self._job.device)
        torch.manual_seed(self._job.seed)
        return MemoryReply(peak_bytes=peak_bytes(self._compiled.call, inputs, self._job.device))

    def _time(self, request: TimeRequest) -> tuple[TimeReply, int | None]:
        assert self._graph is not None and self._job is not None
        assert self._compiled is not None and self._eager is not None
        calls: dict[str, Callable[..., Any]] = {"eager": self._eager, "compiled": self._compiled.call}
        if self._unrewritten is not None:
            calls["unrewritten"] = self._unrewritten.call
        values = self._inputs()
        plan = Plan(
            trials=request.trials,
            warmup=request.warmup,
            order_seed=request.order_seed,
            seed=self._job.seed,
            device=self._job.device,
            clock=request.clock,
            sequential=request.sequential,
            budget_s=request.budget_s,
            min_trials=request.min_trials,
        )
        used = [calls[arm] for arm in request.arms]
        if request.audit is not None:
            return self._audited(request, used, plan), None
        if request.watch:
            return self._watched(request, used, plan), None
        fresh = FreshInputs(values, frozenset(request.mutated))
        times = time_block(used, [fresh] * len(used), plan)
        return TimeReply(trials=tuple(tuple(arm) for arm in times)), None

    def _inputs(self) -> list[Any]:
        """The recorded inputs, in the same memory for all blocks of trials."""
        assert self._graph is not None and self._job is not None
        if self._values is None:
            self._values = make(self._graph, "recorded", 123, self._job.device)
            self._ranges = ranges_of(self._values)
            gc.collect()
            gc.freeze()  # so that collecting before each block takes no time
        return self._values

    def _watched(self, request: TimeRequest, calls: list[Call], plan: Plan) -> TimeReply:
        """Time a block on inputs that change a little now and then, and keep what one call returned."""
        assert self._values is not None
        mutated = frozenset(request.mutated)
        inputs = WatchedInputs(self._values, mutated, request.watch, self._ranges)
        watched = "compiled" if "compiled" in request.arms else request.arms[-1]
        keeper = self._keeper = Keeper(request.arms.index(watched), inputs, mutated, request.keep)
        try:
            times = time_block(calls, [inputs] * len(calls), plan, keeper.saw)
        finally:
            inputs.restore()
        return TimeReply(trials=tuple(tuple(arm) for arm in times), new=keeper.new_among_last(len(times[0])))

    def _kept(self, request: KeptRequest) -> tuple[KeptDone, int]:
        """Pack what the last block kept of a call."""
        assert self._values is not None and self._keeper is not None
        kept = self._keeper.kept[request.which]
        after = [kept.arguments.get(place, value) for place, value in enumerate(self._values)]
        payload, descriptor = write_payload(kept.outputs, after, sorted(kept.arguments), request.budget_bytes)
        return KeptDone(payload=payload, number=kept.number), descriptor

    def _audited(self, request: TimeRequest, calls: list[Call], plan: Plan) -> TimeReply:
        """Time on other inputs, and keep what each of the compiled calls made of them."""
        assert self._graph is not None and self._job is not None and self._values is not None
        audit = request.audit
        assert audit is not None
        draws = [make(self._graph, "random", seed, self._job.device) for seed in audit.seeds]
        mutated = frozenset(request.mutated)
        recorder = self._keeper = Recorder(request.arms.index("compiled"), draws)
        refill = Refill(self._values)
        arms = [AuditedInputs(self._values, mutated, audit.modes, draws, refill) for _ in calls]
        try:
            times = time_block(calls, arms, plan, recorder.saw)
        finally:
            refill.restore()
        return TimeReply(trials=tuple(tuple(arm) for arm in times))

    def _guard(self, request: GuardRequest) -> tuple[GuardDone, int | None]:
        """Run once under all guards, or only look at what the passes have changed."""
        assert self._graph is not None and self._job is not None and self._compiled is not None
        assert self._eager is not None
        job = self._job
        if not request.run:
            changes = self._baseline.changes() if self._baseline is not None else ()
            return GuardDone(violations=changes), None
        graph = self._graph
        folders = [Path(folder) for folder in (job.pass_dir, job.const_pass_dir) if folder]
        made = make(graph, request.regime, request.seed, job.device)
        seen = guarded_run(
            self._plain(),
            self._eager,
            lambda: [clone_like(value) if isinstance(value, torch.Tensor) else value for value in made],
            [rule.replacement_func() for rule in self._rules],
            folders,
            seed=job.seed,
            device=job.device,
            ghosts=request.ghosts,
        )
        changed = changed_inputs(made, seen.inputs)
        payload, descriptor = write_payload(seen.outputs, seen.inputs, changed, request.budget_bytes)
        kernels = tuple(one_line(name, 200) for name in seen.kernels[:200])
        return GuardDone(violations=seen.violations, kernels=kernels, payload=payload), descriptor

    def _plain(self) -> Callable[..., Any]:
        """The rewritten graph as written, without plans; what was compiled where our capture cannot do it.

        Raises what a pass raises that is applied once more, and RuntimeError where none matches any more.
        """
        from pass_bench.fx import capture, load_module, rewrite

        assert self._graph is not None and self._job is not None and self._compiled is not None
        try:
            module = load_module(self._graph, self._job.device)
            rewritten = rewrite(capture(module, self._graph), self._rules, self._inputs())
            if not any(report.replaced for report in rewritten.reports):
                raise RuntimeError("the passes matched when the graph was compiled, and no longer do")
            return rewritten.module
        except Exception:
            if self._job.compiler == "pass_mgr":  # Dynamo captures what our capture cannot, and plans nothing
                return self._compiled.call
            raise


def is_compile_error(error: BaseException | None) -> bool:
    """Whether a kernel's compiler, and not the kernel, raised: kernels compile at their first call."""
    from pass_bench.kernels.errors import KernelCompileError, KernelSignatureError

    while error is not None:
        if isinstance(error, KernelCompileError | KernelSignatureError):
            return True
        if type(error).__module__.startswith("triton.compiler"):
            return True
        error = error.__cause__
    return False


def main(channel: Channel, threads: int) -> None:
    """Answer requests until the supervisor closes the channel."""
    candidate = Candidate(channel.fileno())
    while True:
        envelope, extra = channel.receive(CandidateRequest)
        for descriptor in extra:
            os.close(descriptor)
        reply, beside = candidate.answer(envelope.request)
        try:
            channel.send(CandidateReply(reply=reply), () if beside is None else (beside,))
        finally:
            if beside is not None:
                os.close(beside)
        del reply
