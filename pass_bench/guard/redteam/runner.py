"""Evaluates cases and says whether each got what it should."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data import read_sample
from pass_bench.errors import BadInput
from pass_bench.guard.redteam.cases import Case, write_sample
from pass_bench.guard.source_rules import check_pass_dir
from pass_bench.results.records import EnvironmentRecord, EvalSettings
from pass_bench.worker.evaluate import Evaluator

COMPILERS = ("pass_mgr", "pass_mgr_direct")
CANARY = "REDTEAM_CANARY"
GPU_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Outcome:
    """What became of one case under one compiler; `compiler` is "source" for the source rules alone."""

    case: Case
    compiler: str
    verdict: str
    rules: tuple[str, ...]
    reason: str
    as_expected: bool
    seconds: float


class SuiteEvaluator(Evaluator):
    """An evaluator whose cases share a cache, one for each thread, since most of them share their kernels."""

    def _cache_of(self, *_: object) -> Path:
        thread = Path(f"thread-{threading.get_ident()}")
        return super()._cache_of(thread, thread)


def check_source(case: Case) -> Outcome:
    """Hold the source of a case against the rules: it must break those it names, none if it names none."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sample = write_sample(case, Path(folder))
        found = tuple(dict.fromkeys(v.rule for v in check_pass_dir(sample / "pass_dir", plugins=())))
    wanted = set(case.rules)
    as_expected = wanted <= set(found) if wanted else not found
    verdict = "rejected" if found else "passes"
    return Outcome(case, "source", verdict, found, "", as_expected, time.monotonic() - start)


def suite_settings(compiler: str, device: str = "cpu", timeout_s: float = 120.0) -> EvalSettings:
    """How the suite is evaluated: source rules off, few trials."""
    return EvalSettings(
        compiler=compiler,
        device=device,  # type: ignore[arg-type]
        source_rules=False,
        timeout_s=timeout_s,
        trials=100,
        warmup=4,
        time_budget_s=1.5 if device == "cpu" else 0.5,
        memory_limit_bytes=(2 if device == "cpu" else 8) << 30,  # CUDA maps gigabytes into each process
    )


@contextlib.contextmanager
def suite_environment() -> Iterator[None]:
    """A canary in the supervisor's environment, which no pass may find, and one thread for each process."""
    os.environ[CANARY] = "a secret"
    threads = os.environ.get("OMP_NUM_THREADS")
    # The suite's graphs are small: on a busy machine waiting at a barrier would hide what it looks for.
    os.environ["OMP_NUM_THREADS"] = threads or "1"
    try:
        yield
    finally:
        del os.environ[CANARY]
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]


@contextlib.contextmanager
def suite_evaluator(compiler: str, device: str = "cpu", timeout_s: float = 120.0) -> Iterator[Evaluator]:
    """Workers for the suite."""
    with suite_environment(), SuiteEvaluator(suite_settings(compiler, device, timeout_s)) as evaluator:
        yield evaluator


def run_case(case: Case, evaluator: Evaluator) -> Outcome:
    """Evaluate one case with the source rules off."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="passnet-redteam-") as folder:
        Path(folder).chmod(0o755)
        sample = read_sample(write_sample(case, Path(folder), evaluator.device))
        try:
            (result,) = evaluator.evaluate(sample)
            verdict, reason, violations = result.verdict.value, result.reason, result.violations
        except BadInput as error:  # an import that fails stops an evaluation before its first graph
            verdict, reason, violations = "bad_input", str(error), ()
        except Exception as error:  # a defect of ours must not cost the other cases
            verdict, reason, violations = "harness_failure", f"{type(error).__name__}: {error}", ()
    rules = tuple(dict.fromkeys(violation.rule for violation in violations))
    expected = case.expected.met_by(verdict, rules)
    if case.kind == "honest":
        expected = expected and not rules
    return Outcome(
        case=case,
        compiler=evaluator.settings.compiler,
        verdict=verdict,
        rules=rules,
        reason=reason,
        as_expected=expected,
        seconds=time.monotonic() - start,
    )


def run_suite(
    cases: Iterable[Case],
    compilers: Iterable[str] = COMPILERS,
    device: str = "cpu",
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
    jobs: int = 1,
    seconds: float | None = None,
    on_start: Callable[[EnvironmentRecord | None], None] = lambda environment: None,
) -> list[Outcome]:
    """Check the source of every case, then evaluate those that the device can run under each compiler.

    `jobs` cases are prepared at once; one at a time is timed. After `seconds` no further one is begun. Cases
    that only a GPU can run come first on one, then the honest ones.
    """
    cases = list(cases)
    end = None if seconds is None else time.monotonic() + seconds
    outcomes: list[Outcome] = []

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        on_outcome(outcome)

    for case in cases:
        done(check_source(case))
    runnable = [case for case in cases if case.runs_on(device)]
    if device == "cuda":
        runnable.sort(key=lambda case: (not case.gpu, case.kind != "honest"))
    with contextlib.ExitStack() as stack:
        stack.enter_context(suite_environment())
        evaluators = _evaluators(stack, tuple(compilers), device)
        on_start(evaluators[0].environment)
        tasks = [(case, evaluator) for case in runnable for evaluator in evaluators]
        if device == "cpu":  # one compiler after the other, as the table has them
            tasks = [(case, evaluator) for evaluator in evaluators for case in runnable]

        def one(task: tuple[Case, Evaluator]) -> Outcome | None:
            return None if end is not None and time.monotonic() > end else run_case(*task)

        if device == "cuda" and tasks:  # libraries load and caches fill once, not for all of the first cases
            warmed = next((task for task in tasks if task[0].kind == "honest"), tasks[0])
            run_case(*warmed)
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        for future in [pool.submit(one, task) for task in tasks]:
            outcome = future.result()
            if outcome is not None:
                done(outcome)
    return outcomes


def _evaluators(stack: contextlib.ExitStack, compilers: tuple[str, ...], device: str) -> list[Evaluator]:
    """One for each compiler; all share the workers of the first."""
    timeout_s = 120.0 if device == "cpu" else GPU_TIMEOUT_S
    first = SuiteEvaluator(suite_settings(compilers[0], device, timeout_s), guests=compilers[1:])
    stack.enter_context(first)
    rest = [SuiteEvaluator(suite_settings(name, device, timeout_s), host=first) for name in compilers[1:]]
    return [first, *(stack.enter_context(evaluator) for evaluator in rest)]
