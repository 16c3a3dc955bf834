"""Which processors are set aside for the timed graph, and that its threads go there and back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pass_bench.worker.cores import Cores, cores_for, parse_processors, share_out, siblings_of
from pass_bench.worker.hush import Hush
from pass_bench.worker.processes import ZygoteProcess


def test_the_notation_of_the_kernel() -> None:
    assert parse_processors("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_processors("5") == {5}
    with pytest.raises(ValueError, match="invalid literal"):
        parse_processors("")
    assert 0 in siblings_of(0)


def pairs(processor: int) -> frozenset[int]:
    """Eight cores of two: 0 and 8, 1 and 9, ..."""
    return frozenset({processor % 8, processor % 8 + 8})


@pytest.mark.parametrize(
    ("gpus", "visible", "timed", "rest"),
    [
        (1, "", {7, 15}, {*range(7), *range(8, 15)}),
        (1, "GPU-5d1f", {7, 15}, {*range(7), *range(8, 15)}),
        (2, "0", {6, 14}, {*range(6), *range(8, 14)}),
        (2, "1,0", {7, 15}, {*range(6), *range(8, 14)}),
    ],
)
def test_each_gpu_has_a_whole_core(gpus: int, visible: str, timed: set[int], rest: set[int]) -> None:
    assert share_out(range(16), gpus, visible, pairs) == Cores(frozenset(timed), frozenset(rest))


def test_none_is_set_aside_where_there_are_few_or_no_gpu() -> None:
    assert share_out(range(16), 3, "", pairs) is None  # 8 cores for 3 GPUs
    assert share_out(range(16), 0, "", pairs) is None
    assert cores_for("cpu", None) is None


def test_only_processors_that_may_be_used_are_shared_out() -> None:
    assert share_out({0, 1, 2, 3}, 1, "", pairs) == Cores(frozenset({3}), frozenset({0, 1, 2}))


@pytest.fixture
def zygote() -> Iterator[ZygoteProcess]:
    first = min(os.sched_getaffinity(0))
    with ZygoteProcess("cpu", cores=Cores(frozenset({first}), frozenset(os.sched_getaffinity(0)))) as running:
        yield running


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_the_timed_graph_moves_to_its_processors_and_back(zygote: ZygoteProcess) -> None:
    processors = sorted(os.sched_getaffinity(0))
    cores = Cores(frozenset(processors[:1]), frozenset(processors[1:]))
    hush = Hush(cores=cores)
    with (
        zygote.fork("reference") as mine,
        zygote.fork("reference") as other,
        hush.member(mine, "a"),
        hush.member(other, "b"),
    ):
        before = os.sched_getaffinity(other.pid)
        with hush.others_still("a"):
            assert os.sched_getaffinity(mine.pid) == cores.timed
            assert os.sched_getaffinity(other.pid) == before
        assert os.sched_getaffinity(mine.pid) == cores.rest


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_first_threads_share_one_processor_and_leave_the_others_to_other_threads(
    zygote: ZygoteProcess,
) -> None:
    one, other = sorted(os.sched_getaffinity(0))[:2]
    assert Cores(frozenset({one, other}), frozenset()).main == other
    with zygote.fork("reference") as child:
        tasks = {int(task.name) for task in Path(f"/proc/{child.pid}/task").iterdir()}
        child.run_on({one, other}, main=other)
        assert os.sched_getaffinity(child.pid) == {other}
        assert all(os.sched_getaffinity(task) == {one} for task in tasks - {child.pid})
        child.run_on({other}, main=other)  # no sibling: they share it
        assert all(os.sched_getaffinity(task) == {other} for task in tasks)
