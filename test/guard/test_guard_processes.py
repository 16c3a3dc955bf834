"""Waiting until a process has come to rest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from pass_bench.guard.processes import busy_threads, running_threads, settle


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[int]:
    code = f"print(flush=True)\n{request.param}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def seconds_to_settle(pid: int) -> float:
    start = time.monotonic()
    settle(pid, 0.5)
    return time.monotonic() - start


@pytest.mark.parametrize("child", ["import time; time.sleep(60)"], indirect=True)
def test_a_process_that_sleeps_has_settled(child: int) -> None:
    time.sleep(0.2)
    assert seconds_to_settle(child) < 0.25 and busy_threads(child) < 0.5


@pytest.mark.parametrize("child", ["while True: pass"], indirect=True)
def test_one_that_never_sleeps_is_waited_for_as_long_as_allowed(child: int) -> None:
    assert seconds_to_settle(child) >= 0.5 and busy_threads(child) > 0.5


@pytest.mark.parametrize(
    "child",
    ["import time\nend = time.time() + 0.2\nwhile time.time() < end: pass\ntime.sleep(60)"],
    indirect=True,
)
def test_one_that_comes_to_rest_is_waited_for(child: int) -> None:
    assert 0.05 < seconds_to_settle(child) < 0.45


@pytest.mark.parametrize("child", ["while True: pass"], indirect=True)
def test_a_process_that_is_stopped_tells_nothing(child: int) -> None:
    assert running_threads(child) == 1
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.05)
    assert running_threads(child) is None
    start = time.monotonic()
    assert busy_threads(child, limit_s=0.1) == 0.0 and time.monotonic() - start < 1
    os.kill(child, signal.SIGCONT)
    time.sleep(0.05)
    assert running_threads(child) == 1


@pytest.mark.parametrize("child", ["import time; time.sleep(60)"], indirect=True)
def test_earlier_looks_count(child: int) -> None:
    time.sleep(0.2)
    assert busy_threads(child, [1, 1, 1, 1]) == 0.5  # four more, which see nothing
    start = time.monotonic()
    assert busy_threads(child, [0] * 8, interval_s=1.0) == 0.0 and time.monotonic() - start < 0.5


def test_one_that_is_gone_has_settled() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert seconds_to_settle(process.pid) < 0.25
