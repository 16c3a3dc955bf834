"""Evaluates cases and says whether each got what it should."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data import read_sample
from pass_bench.errors import BadInput
from pass_bench.guard.redteam.cases import Case, write_sample
from pass_bench.guard.source_rules import check_pass_dir
from pass_bench.results.records import EvalSettings
from pass_bench.worker.evaluate import Evaluator

COMPILERS = ("pass_mgr", "pass_mgr_direct")
CANARY = "REDTEAM_CANARY"


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
    """An evaluator whose cases share one cache, since most of them share their C++ kernels."""

    def _cache_of(self, *_: object) -> Path:
        folder = self._caches / "suite"
        folder.mkdir(exist_ok=True)
        return folder


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


@contextlib.contextmanager
def suite_evaluator(compiler: str, device: str = "cpu", timeout_s: float = 120.0) -> Iterator[Evaluator]:
    """Workers for the suite, source rules off, a canary in the supervisor's environment."""
    settings = EvalSettings(
        compiler=compiler,
        device=device,  # type: ignore[arg-type]
        source_rules=False,
        timeout_s=timeout_s,
        trials=48,
        warmup=4,
        time_budget_s=1.5,
        memory_limit_bytes=2 << 30,
    )
    os.environ[CANARY] = "a secret"
    threads = os.environ.get("OMP_NUM_THREADS")
    # The suite's graphs are small: on a busy machine waiting at a barrier would hide what it looks for.
    os.environ["OMP_NUM_THREADS"] = threads or "1"
    try:
        with SuiteEvaluator(settings) as evaluator:
            yield evaluator
    finally:
        del os.environ[CANARY]
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]


def run_case(case: Case, evaluator: Evaluator) -> Outcome:
    """Evaluate one case with the source rules off."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="passnet-redteam-") as folder:
        Path(folder).chmod(0o755)
        sample = read_sample(write_sample(case, Path(folder)))
        try:
            (result,) = evaluator.evaluate(sample)
            verdict, reason, violations = result.verdict.value, result.reason, result.violations
        except BadInput as error:  # an import that fails stops an evaluation before its first graph
            verdict, reason, violations = "bad_input", str(error), ()
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
) -> list[Outcome]:
    """Check the source of every case, then evaluate those that the device can run under each compiler."""
    cases = list(cases)
    outcomes = []
    for case in cases:
        outcomes.append(check_source(case))
        on_outcome(outcomes[-1])
    runnable = [case for case in cases if device == "cuda" or not case.gpu]
    for compiler in compilers:
        with suite_evaluator(compiler, device) as evaluator:
            for case in runnable:
                outcomes.append(run_case(case, evaluator))
                on_outcome(outcomes[-1])
    return outcomes
