"""On a host that stands still for moments honest passes stay correct and hidden time is still found.

A hypervisor that gives a machine's cores to others leaves no trace in the guest's account of waiting: both
the clock outside and the processor time of whatever seemed to run go on. That is imitated in the supervisor,
where answers to timing requests come in.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pass_bench.data import read_sample
from pass_bench.guard.processes import CpuAccount, cpu_account
from pass_bench.guard.redteam.cases import read_cases
from pass_bench.guard.redteam.runner import run_case, suite_evaluator
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.worker import control, conversation
from pass_bench.worker.evaluate import Evaluator

MEAN_S = 0.003


@pytest.fixture
def standing_still(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let a share of the answers come late; the later, the rarer."""
    share = request.param
    moments = random.Random(1)
    stolen: dict[int, int] = {}

    def late(answer: Callable[..., Any], pid_of: Callable[[Any], int]) -> Callable[..., Any]:
        def inner(self: Any, *arguments: Any, **more: Any) -> Any:
            answered = answer(self, *arguments, **more)
            if moments.random() < share:
                seconds = moments.expovariate(1 / MEAN_S)
                time.sleep(seconds)
                pid = pid_of(self)
                stolen[pid] = stolen.get(pid, 0) + int(seconds * 1e9)
            return answered

        return inner

    def account(pid: int) -> CpuAccount:
        found = cpu_account(pid)
        return CpuAccount(found.ran_ns + stolen.get(pid, 0), found.waited_ns)

    for owner, name, pid_of in (
        (conversation.Conversation, "reply_beside", lambda talk: talk.pid),
        (control.Control, "_expect", lambda one: one.child.pid),
    ):
        monkeypatch.setattr(owner, name, late(getattr(owner, name), pid_of))
    for module in (conversation, control):
        monkeypatch.setattr(module, "cpu_account", account)


@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("standing_still", [0.9], indirect=True)
@pytest.mark.parametrize("graphs", [5, pytest.param(80, marks=pytest.mark.full)])
def test_honest_passes_stay_correct(
    standing_still: None, make_sample: Callable[..., Path], graphs: int
) -> None:
    sample = read_sample(make_sample())
    with Evaluator(EvalSettings(device="cpu", warmup=1, trials=3)) as evaluator:
        results = [result for _ in range(graphs) for result in evaluator.evaluate(sample)]
    assert [(r.verdict, r.reason) for r in results] == [(Verdict.CORRECT, "")] * graphs


@pytest.mark.serial
@pytest.mark.timeout(600)
@pytest.mark.parametrize("standing_still", [0.5], indirect=True)
@pytest.mark.parametrize("name", ["native_clock_patch", "native_clock_patch_later"])
def test_hidden_time_is_found(standing_still: None, repository: Path, name: str) -> None:
    (case,) = [one for one in read_cases(repository / "test" / "redteam") if one.name == name]
    with suite_evaluator("pass_mgr_direct") as evaluator:
        outcome = run_case(case, evaluator)
    assert (outcome.verdict, outcome.rules) == ("rejected", ("clock",)), outcome.reason
