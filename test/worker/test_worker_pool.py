"""Warm workers: lent again after a sound graph, ended after anything else, never to a pass."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.pool import MOST_GRAPHS, Pool
from pass_bench.worker.processes import Child, ended

GRAPH = """import torch
class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        {body}
"""
SETTINGS = EvalSettings(compiler="nope", device="cpu", warmup=1, trials=3, time_budget_s=1.0, timeout_s=60)


@pytest.fixture
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(SETTINGS) as running:
        yield running


@pytest.fixture
def pool(evaluator: Evaluator) -> Pool:
    assert evaluator._candidates is not None
    return evaluator._candidates


def test_one_process_runs_the_model_of_many_graphs_and_holds_nothing_of_the_last(
    evaluator: Evaluator, pool: Pool, make_sample: Callable[..., Path]
) -> None:
    bodies = {"add": "return (in_0 + in_1,)", "mul": "return (in_0 * in_1, in_0.sum())"}
    graphs = {name: GRAPH.format(body=body) for name, body in bodies.items()}
    sample = read_sample(make_sample(graphs=graphs))
    results = evaluator.evaluate(sample)
    assert [result.verdict for result in results] == [Verdict.CORRECT, Verdict.CORRECT]
    assert [len(result.regimes[0].tensors) for result in results] == [1, 2]
    (first,) = pool.idle_pids
    evaluator.evaluate(sample, only=[0])
    assert pool.idle_pids == (first,)


def test_what_looked_at_the_device_is_the_first_reference(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    references = evaluator._references
    assert references is not None
    (first,) = references.idle_pids
    sample = read_sample(make_sample(graphs={"fine": GRAPH.format(body="return (in_0 + in_1,)")}))
    (result,) = evaluator.evaluate(sample)
    assert result.verdict is Verdict.CORRECT
    assert references.idle_pids == (first,)


def test_closing_ends_all_that_are_idle(evaluator: Evaluator) -> None:
    assert evaluator._zygote is not None
    pool = Pool(evaluator._zygote, "reference")
    children = [evaluator._zygote.fork("reference") for _ in range(3)]
    for child in children:
        pool.add(child)
    assert set(pool.idle_pids) == {child.pid for child in children}
    pool.close()
    assert pool.idle_pids == ()
    assert not any(Path(f"/proc/{child.pid}").exists() for child in children)


def test_a_pool_shrinks_by_one_and_an_empty_one_stays_empty(evaluator: Evaluator) -> None:
    assert evaluator._zygote is not None
    pool = Pool(evaluator._zygote, "reference")
    one, other = (evaluator._zygote.fork("reference") for _ in range(2))
    pool.add(one)
    pool.add(other)
    pool.shrink()
    assert pool.idle_pids == (other.pid,) and not one.alive and other.alive
    pool.shrink()
    pool.shrink()
    assert pool.idle_pids == () and not other.alive


def test_one_that_dies_at_work_costs_its_graph_and_is_not_lent_again(
    evaluator: Evaluator, pool: Pool, make_sample: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = read_sample(make_sample(graphs={"fine": GRAPH.format(body="return (in_0 + in_1,)")}))
    take = pool._take

    def take_and_kill() -> tuple[Child, int]:
        child, graphs = take()
        os.kill(child.pid, signal.SIGKILL)
        return child, graphs

    with monkeypatch.context() as patch:
        patch.setattr(pool, "_take", take_and_kill)
        (result,) = evaluator.evaluate(sample)
    assert (result.verdict, pool.idle_pids) == (Verdict.RUNTIME_FAIL, ())
    assert "killed by SIGKILL" in result.reason
    (again,) = evaluator.evaluate(sample)
    assert again.verdict is Verdict.CORRECT


def test_one_that_was_killed_while_idle_is_replaced(
    evaluator: Evaluator, pool: Pool, make_sample: Callable[..., Path]
) -> None:
    sample = read_sample(make_sample(graphs={"fine": GRAPH.format(body="return (in_0 + in_1,)")}))
    evaluator.evaluate(sample)
    (pid,) = pool.idle_pids
    os.kill(pid, signal.SIGKILL)
    assert ended(os.pidfd_open(pid), 5000)  # all its threads
    (result,) = evaluator.evaluate(sample)
    assert (result.verdict, result.reason) == (Verdict.CORRECT, "")
    assert pool.idle_pids != (pid,)


def test_a_fresh_one_comes_after_many_graphs(pool: Pool) -> None:
    pids = []
    for _ in range(MOST_GRAPHS + 1):
        with pool.lend() as loan:
            pids.append(loan.child.pid)
            loan.sound = True
    assert len(set(pids[:MOST_GRAPHS])) == 1 and pids[MOST_GRAPHS] != pids[0]


def test_one_whose_graph_was_not_sound_is_ended(pool: Pool) -> None:
    with pool.lend() as loan:
        pid = loan.child.pid
    assert pool.idle_pids == () and not loan.child.alive
    with pytest.raises(ZeroDivisionError), pool.lend() as loan:
        loan.sound = False
        raise ZeroDivisionError
    assert pool.idle_pids == () and loan.child.pid != pid


def test_passes_get_a_process_of_their_own(make_sample: Callable[..., Path]) -> None:
    settings = SETTINGS.model_copy(update={"compiler": "pass_mgr_direct"})
    with Evaluator(settings) as evaluator:
        assert evaluator._candidates is not None
        (result,) = evaluator.evaluate(read_sample(make_sample()))
        (control,) = evaluator._candidates.idle_pids  # which timed eager beside the pass
        assert evaluator._zygote is not None and result.verdict is Verdict.CORRECT
        loaded = Path(f"/proc/{control}/maps").read_text()
        assert "pn_module" not in loaded and "passnet-caches" not in loaded
