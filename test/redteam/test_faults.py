"""A pass that breaks its process costs one graph its verdict, and nothing else."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.guard.redteam.faults import (
    FAULTS,
    NOTHING,
    Fault,
    FaultEvaluator,
    left_running,
    run_fault,
    run_faults,
    says_why,
    write_fault,
)
from pass_bench.results.records import GraphResult
from pass_bench.results.verdict import Verdict

pytestmark = pytest.mark.serial

SLICE = ("segfault", "python loop", "fork bomb", "10 GiB", "no descriptors")
CPU_FAULTS = [fault for fault in FAULTS if not fault.gpu]
LOOP = next(fault for fault in FAULTS if fault.name == "python loop")


@pytest.fixture(scope="module")
def evaluator() -> Iterator[FaultEvaluator]:
    with FaultEvaluator(timeout_s=float(os.environ.get("PASSNET_TEST_TIMEOUT_S", "20"))) as running:
        yield running


def verdicts(results: list[GraphResult]) -> list[Verdict]:
    return [result.verdict for result in results]


@pytest.mark.parametrize(
    "fault",
    [f if f.name in SLICE else pytest.param(f, marks=pytest.mark.full) for f in CPU_FAULTS],
    ids=lambda fault: fault.name,
)
def test_a_fault_costs_one_graph_its_verdict(fault: Fault, evaluator: FaultEvaluator) -> None:
    outcome = run_fault(fault, evaluator)
    assert outcome.as_expected, outcome
    assert outcome.gone_s < 2
    assert left_running(evaluator) == []


@pytest.mark.parametrize("name", ["fork bomb", "no descriptors", "trap"])
def test_a_fault_that_nothing_stopped_is_not_as_expected(name: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    assert not says_why(fault, "AssertionError: nothing stopped it") and not says_why(fault, "")


def test_either_limit_may_stop_a_fork_bomb() -> None:
    bomb = next(fault for fault in FAULTS if fault.name == "fork bomb")
    assert says_why(bomb, "the pass used more than 6 GiB of memory while loading and compiling")
    assert says_why(bomb, "RuntimeError: no more processes after 270")


def test_captured_output_is_capped(evaluator: FaultEvaluator, tmp_path: Path) -> None:
    flood = Fault("flood", 'os.write(1, b"x" * (3 << 20))', Verdict.CORRECT)
    (result,) = evaluator.evaluate(read_sample(write_fault(tmp_path, flood)), only=(1,))
    assert result.verdict is Verdict.CORRECT and 0 < len(result.log_tail) <= 1 << 20


@pytest.mark.gpu
def test_faults_on_a_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    with FaultEvaluator("cuda", 12.0) as evaluator:
        outcomes = run_faults(evaluator, jobs=6)
    assert [outcome for outcome in outcomes if not outcome.as_expected] == []


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.full)])
def test_children_killed_at_random_moments(kills: int, evaluator: FaultEvaluator, tmp_path: Path) -> None:
    sample = read_sample(write_fault(tmp_path, NOTHING))
    whole_s = 60.0  # of an evaluation that nobody disturbs
    for _ in range(2):  # the first one may compile
        start = time.monotonic()
        assert verdicts(evaluator.evaluate(sample, only=(1, 2))) == [Verdict.CORRECT] * 2
        whole_s = min(whole_s, time.monotonic() - start)
    slowest = 0.0
    struck: list[int] = []
    failed = 0
    moments = random.Random(1234 + kills)
    for _ in range(kills):
        done = threading.Event()

        def strike(delay: float = moments.uniform(0.02, 0.9 * whole_s), done: threading.Event = done) -> None:
            if not done.wait(delay):
                victims = left_running(evaluator)
                if victims:
                    with contextlib.suppress(ProcessLookupError):
                        victim = moments.choice(victims)
                        os.kill(victim, signal.SIGKILL)
                        struck.append(victim)

        thread = threading.Thread(target=strike)
        thread.start()
        evaluator.taken.clear()
        results = evaluator.evaluate(sample, only=(1, 2))
        done.set()
        thread.join()
        slowest = max(slowest, *evaluator.taken)
        allowed = {Verdict.CORRECT, Verdict.RUNTIME_FAIL, Verdict.EAGER_FAIL, Verdict.COMPILE_FAIL}
        # eager's process may be hit too
        assert set(verdicts(results)) <= allowed, [r.reason for r in results]
        wrong = sum(v is not Verdict.CORRECT for v in verdicts(results))
        assert wrong <= 1
        failed += wrong
        assert left_running(evaluator) == []
    assert verdicts(evaluator.evaluate(sample, only=(0,))) == [Verdict.CORRECT]
    print(f"{len(struck)} of {kills} kills struck, {failed} cost a verdict, gone within {slowest:.2f} s")
    assert len(struck) >= kills // 2, "most graphs ended before a process could be killed"
    assert failed >= kills // 5, "few of the processes that were killed mattered"  # the control does not
    assert slowest < 2


def test_a_killed_candidate_is_gone_within_two_seconds(evaluator: FaultEvaluator, tmp_path: Path) -> None:
    sample = read_sample(write_fault(tmp_path, LOOP))
    evaluator.taken.clear()
    (result,) = evaluator.evaluate(sample, only=(1,))
    assert result.verdict is Verdict.TIMEOUT
    assert evaluator.taken and max(evaluator.taken) < 2
    assert left_running(evaluator) == []
