"""What a pass does to its process costs its graph a typed verdict, and nobody else anything.

The source rules and guards are off here: this is about processes.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.guard.redteam.faults import left_running
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.faults import describe
from pass_bench.worker.processes import KEPT_PREFIXES, clean_environment, signal_name
from pass_bench.worker.zygote import children_of

pytestmark = pytest.mark.serial

SETTINGS = EvalSettings(
    device="cpu", warmup=0, trials=3, time_budget_s=0.0, timeout_s=40, source_rules=False, guards=False
)
PASS = """import os, signal, sys, time, ctypes
import torch
{top}
def pattern(x, y):
    return torch.nn.functional.relu(x + y)
def replacement_args(x, y):
    return (x, y)
def replacement_func():
    return run
@torch.fx.wrap
def run(x, y):
    {body}
    return torch.relu(x + y)
"""
JUNK = """
    for name in os.listdir("/proc/self/fd"):
        try:
            os.write(int(name), {data})
        except OSError:
            pass
"""


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(SETTINGS) as running:
        yield running


@pytest.fixture
def verdict_of(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> Iterator[Callable[..., GraphResult]]:
    """Evaluate one pass; afterwards nothing of it may be running, and an honest pass must still be right."""

    def evaluate(body: str = "", top: str = "", **settings: object) -> GraphResult:
        evaluator.settings = SETTINGS.model_copy(update=settings)
        text = PASS.format(top=top, body=body.strip("\n").strip())
        (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": text}, name="faulty")))
        return result

    yield evaluate
    evaluator.settings = SETTINGS
    assert evaluator._zygote is not None
    assert left_running(evaluator) == []
    honest = PASS.format(top="", body="pass")
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": honest}, name="honest")))
    assert (result.verdict, result.reason) == (Verdict.CORRECT, "")


def test_a_segmentation_fault(verdict_of: Callable[..., GraphResult]) -> None:
    result = verdict_of("ctypes.string_at(0)")
    assert result.verdict is Verdict.RUNTIME_FAIL
    killed = "the process of the pass was killed by SIGSEGV (segmentation fault)"
    assert result.reason == f"{killed} while running on the recorded inputs"


def test_an_exit_while_it_is_imported(verdict_of: Callable[..., GraphResult]) -> None:
    result = verdict_of(top="os._exit(0)")
    assert result.verdict is Verdict.RUNTIME_FAIL
    assert result.reason == "the process of the pass exited with status 0 while loading and compiling"


def test_an_endless_loop(verdict_of: Callable[..., GraphResult]) -> None:
    result = verdict_of("while True: pass", timeout_s=20.0)
    assert result.verdict is Verdict.TIMEOUT
    assert result.reason == "no answer within 20 s, while loading and compiling"
    assert result.phases.total_s < 60


def test_a_process_left_running_in_a_session_of_its_own(verdict_of: Callable[..., GraphResult]) -> None:
    body = """
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    """
    assert verdict_of(body).verdict in (Verdict.CORRECT, Verdict.RUNTIME_FAIL)


def test_a_flood_of_output_is_read_and_dropped(verdict_of: Callable[..., GraphResult]) -> None:
    result = verdict_of(
        'os.write(1, b"x" * 65536 + b"[Result] status: success")\n    os.write(2, b"\\x1b[2J" * 9)'
    )
    assert result.verdict is Verdict.CORRECT
    assert len(result.log_tail) <= 4000 and "\x1b" not in result.log_tail


def test_every_descriptor_closed(verdict_of: Callable[..., GraphResult]) -> None:
    result = verdict_of("os.closerange(3, 4096)")
    assert result.verdict is Verdict.RUNTIME_FAIL


@pytest.mark.parametrize(
    "data",
    ['b"\\xff" * 64', 'b"\\0\\0\\0\\x02[]"', 'b"\\0\\0\\0\\x10{\\"reply\\": {}}    "'],
    ids=["size", "list", "empty"],
)
def test_a_forged_message(verdict_of: Callable[..., GraphResult], data: str) -> None:
    result = verdict_of(JUNK.format(data=data))
    assert result.verdict is Verdict.REJECTED
    assert [violation.rule for violation in result.violations] == ["protocol"]


def test_an_eager_that_dies_is_no_fault_of_the_harness(
    evaluator: Evaluator, make_sample: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference's process is killed at once: the graph gets its verdict and the run goes on."""
    assert evaluator._zygote is not None and evaluator._references is not None
    evaluator._references.close()
    fork = evaluator._zygote.fork

    def fork_and_kill(role: str) -> object:
        child = fork(role)  # type: ignore[arg-type]
        if role == "reference":
            os.kill(child.pid, signal.SIGKILL)
        return child

    sample = read_sample(make_sample(passes={"P": PASS.format(top="", body="pass")}))
    names = evaluator.check(sample)
    monkeypatch.setattr(evaluator._zygote, "fork", fork_and_kill)
    result = evaluator.evaluate_graph(sample, 0, names=names)
    assert (result.verdict, result.reason) == (
        Verdict.EAGER_FAIL,
        "eager's process was killed by SIGKILL (killed)",
    )


def test_a_candidate_killed_at_random_moments(evaluator: Evaluator, make_sample: Callable[..., Path]) -> None:
    """Each graph gets a verdict that says what happened, and nothing stays running."""
    assert evaluator._zygote is not None
    zygote = evaluator._zygote
    sample = read_sample(make_sample(passes={"P": PASS.format(top="", body="pass")}))
    names = evaluator.check(sample)
    whole_s = 60.0  # of an evaluation that nobody disturbs
    for _ in range(2):
        start = time.monotonic()
        assert evaluator.evaluate_graph(sample, 0, names=names).verdict is Verdict.CORRECT
        whole_s = min(whole_s, time.monotonic() - start)
    fork = zygote.fork
    source = random.Random(5)
    verdicts = []
    timers: list[threading.Timer] = []

    def kill(pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def fork_and_kill_later(role: str) -> object:
        child = fork(role)  # type: ignore[arg-type]
        if role == "candidate":
            timers.append(threading.Timer(source.uniform(0, 0.9 * whole_s), kill, (child.pid,)))
            timers[-1].start()
        return child

    try:
        zygote.fork = fork_and_kill_later  # type: ignore[method-assign, assignment]
        for _ in range(5):
            result = evaluator.evaluate_graph(sample, 0, names=names)
            verdicts.append(result.verdict)
            if result.verdict is Verdict.RUNTIME_FAIL:
                assert "was killed by SIGKILL (killed)" in result.reason
    finally:
        zygote.fork = fork  # type: ignore[method-assign]
        for timer in timers:
            timer.join()
    assert set(verdicts) <= {Verdict.RUNTIME_FAIL, Verdict.CORRECT}
    assert verdicts.count(Verdict.RUNTIME_FAIL) >= 2, "most graphs ended before their process could be killed"
    assert left_running(evaluator) == []


def test_the_zygotes_environment_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "PASSNET_API_TOKEN", "AWS_SECRET", "HOMEPAGE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PASSNET_KEPT", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    environment = clean_environment("cpu")
    assert not {"OPENAI_API_KEY", "PASSNET_API_TOKEN", "AWS_SECRET", "HOMEPAGE"} & set(environment)
    assert environment["OMP_NUM_THREADS"] == "2" and environment["TRITON_INTERPRET"] == "1"
    assert "TRITON_INTERPRET" not in clean_environment("cuda")
    assert all(prefix.endswith("_") for prefix in KEPT_PREFIXES)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "RuntimeError"),
        ("\n  no room \nfor more", "RuntimeError: no room"),
        (
            "backend='inductor' raised:\n\n  InductorError: no room\nfor more",
            "RuntimeError: backend='inductor' raised: InductorError: no room",
        ),
        ("why:\n", "RuntimeError: why:"),
    ],
)
def test_an_exception_in_a_line(message: str, words: str) -> None:
    assert describe(RuntimeError(message)) == words


def test_signals_have_names() -> None:
    assert signal_name(11) == "SIGSEGV (segmentation fault)"
    assert signal_name(9) == "SIGKILL (killed)"


def test_ctrl_c_ends_everything_at_once(make_sample: Callable[..., Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "pass_bench",
        "eval",
        str(make_sample()),
        "--device",
        "cpu",
        "--out",
        str(out),
    ]
    command += ["--trials", "100000", "--time-budget", "300"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where we run under nohup
    ) as running:
        end = time.monotonic() + 120
        while (
            not out.exists() and time.monotonic() < end
        ):  # made once the workers are up and the input is read
            time.sleep(0.1)
        workers = children_of(running.pid)
        assert workers
        workers += [child for worker in workers for child in children_of(worker)]
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=30)
    assert (running.returncode, stdout) == (3, "")
    assert stderr.splitlines()[-1] == "passbench: interrupted" and "Traceback" not in stderr
    alive = [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    assert alive == []
    assert not (out / "aggregated_score.json").exists()
