"""While one graph is timed, the children of others stand still, whenever they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pass_bench.guard.processes import descendants
from pass_bench.worker.hush import Hush
from pass_bench.worker.messages import CandidateJob, CandidateReply, CandidateRequest
from pass_bench.worker.processes import Child, ZygoteProcess


@pytest.fixture(scope="module")
def zygote() -> Iterator[ZygoteProcess]:
    with ZygoteProcess("cpu") as running:
        yield running


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def state(child: Child) -> str:
    """Return "T" where the process is stopped; looks a few times, since a signal takes a moment."""
    for _ in range(50):
        seen = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if seen == "T":
            return seen
        time.sleep(0.002)
    return seen


def test_others_stand_still_and_go_on(zygote: ZygoteProcess) -> None:
    hush = Hush()
    with zygote.fork("reference") as mine, zygote.fork("reference") as other, hush.member(mine, "a"):
        with hush.member(other, "b"):
            with hush.others_still("a"):
                assert (state(mine) == "T", state(other) == "T") == (False, True)
                with zygote.fork("reference") as late, hush.member(late, "c"):
                    assert state(late) == "T"
                assert not late.alive  # stopped or not, it is ended
            assert state(other) != "T"
            with hush.others_still("b"):
                assert (state(mine) == "T", state(other) == "T") == (True, False)
        assert state(other) != "T"


def test_a_child_whose_graph_ends_meanwhile_goes_on(zygote: ZygoteProcess) -> None:
    hush = Hush()
    with zygote.fork("reference") as mine, zygote.fork("reference") as other, hush.member(mine, "a"):
        membership = hush.member(other, "b")
        membership.__enter__()
        with hush.others_still("a"):
            assert state(other) == "T"
            membership.__exit__(None, None, None)
            assert state(other) != "T"


def test_it_can_be_off(zygote: ZygoteProcess) -> None:
    hush = Hush(enabled=False)
    with zygote.fork("reference") as other, hush.member(other, "b"), hush.others_still("a"):
        assert state(other) != "T"


def test_graphs_that_prepare_go_on(zygote: ZygoteProcess) -> None:
    hush = Hush()
    with zygote.fork("reference") as mine, zygote.fork("reference") as other, hush.member(mine, "a"):
        with hush.member(other, "b"), hush.others_still("a"):
            assert state(other) == "T"
        with hush.preparing("b"), hush.member(other, "b"), hush.others_still("a"):
            assert state(other) != "T"
        with hush.member(other, "b"):
            with hush.others_still("a"), hush.preparing("b"):
                pass
            assert state(other) != "T"
        ready = hush.preparing("b")
        ready.__enter__()
        with hush.member(other, "b"), hush.others_still("a"):
            assert state(other) != "T"
            ready.__exit__(None, None, None)
            assert state(other) == "T"


def test_the_time_of_a_pause_is_known(zygote: ZygoteProcess) -> None:
    with zygote.fork("reference") as child:
        assert child.paused_s == 0
        child.pause()
        time.sleep(0.1)
        assert 0.1 <= child.paused_s < 5
        child.resume()
        known = child.paused_s
        time.sleep(0.05)
        assert child.paused_s == known >= 0.1


def test_what_runs_in_a_box_stands_still_too(make_sample: Callable[..., Path], zygote: ZygoteProcess) -> None:
    sample = make_sample()
    job = CandidateJob(
        sample_path=str(sample),
        graph_path=str(sample / "graphs/tiny"),
        pass_dir=str(sample / "pass_dir"),
        compiler="nope",
        device="cpu",
        seed=1,
        sandbox="auto",
        cache_dir="",
    )
    with zygote.fork("candidate") as boxed:
        boxed.send(CandidateRequest(request=job))
        boxed.receive(CandidateReply, time.monotonic() + 60)
        inside = descendants(boxed.pid)
        boxed.pause()
        time.sleep(0.1)
        assert [stopped(pid) for pid in inside] == [True] * len(inside)
        boxed.resume()
        time.sleep(0.1)
        assert [stopped(pid) for pid in inside] == [False] * len(inside)
