"""A pass that breaks its process costs one graph its verdict, and nothing else."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.data.graph import write_graph
from pass_bench.data.records import TensorMeta
from pass_bench.guard.processes import descendants
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator

pytestmark = pytest.mark.serial

ROWS = (4, 8, 12)  # of the three graphs; the pass misbehaves on the second one
PASS = """
import ctypes, os, signal, sys, time
import torch
from pass_bench.kernels import cpp_kernel
{top}
kernel = cpp_kernel(
    "void add_relu(const float* x, const float* y, float* out, int64_t n) {{"
    "  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i] > 0 ? x[i] + y[i] : 0; }}",
    "add_relu(const float* x, const float* y, float* out, int64_t n)",
)
spin = cpp_kernel(
    "void spin(const float* x) {{ for (volatile int i = 0;; i = i + 1); }}", "spin(const float* x)"
)

def pattern(x, y):
    return torch.relu(x + y)

def replacement_args(x, y):
    return (x, y)

@torch.fx.wrap
def fused(x, y):
    if x.shape[0] == 8:
        {fault}
    out = torch.empty_like(x)
    kernel(x, y, out, x.numel())
    return out

def replacement_func():
    return fused
"""
FORK_BOMB = """
        children = 0
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                children += 1
                assert children < 5000, "no limit"
            except BlockingIOError:
                raise RuntimeError(f"stopped after {children}")
"""
ALLOCATION = """
        blocks = []
        for _ in range(160):
            blocks.append(bytearray(b"x") * (64 << 20))
            time.sleep(0.02)
"""
FLOOD = """
        for _ in range(1024):
            os.write(1, b"x" * (1 << 20))
"""
FAULTS = {  # name: (fault, verdict of the second graph, words in its reason)
    "segfault": ("ctypes.string_at(0)", Verdict.RUNTIME_FAIL, "SIGSEGV"),
    "abort": ("os.abort()", Verdict.RUNTIME_FAIL, "SIGABRT"),
    "exit": ("os._exit(0)", Verdict.RUNTIME_FAIL, "exited with status 0"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", Verdict.RUNTIME_FAIL, "SIGKILL"),
    "python loop": ("while True: pass", Verdict.TIMEOUT, "no answer within"),
    "kernel loop": ("spin(x)", Verdict.TIMEOUT, "no answer within"),
    "stopped": ("os.kill(os.getpid(), signal.SIGSTOP)", Verdict.TIMEOUT, "no answer within"),
    "fork bomb": (FORK_BOMB, Verdict.RUNTIME_FAIL, ""),  # by the limit of processes, or of memory
    "10 GiB": (ALLOCATION, Verdict.RUNTIME_FAIL, "more than 1 GiB of memory"),
    "1 GiB of output": (FLOOD, Verdict.CORRECT, ""),
    "no descriptors": ("os.closerange(0, 4096)", Verdict.RUNTIME_FAIL, ""),
    "recursion": ("fused(x, y)", Verdict.RUNTIME_FAIL, "RecursionError"),
}
SLICE = ("segfault", "python loop", "fork bomb", "10 GiB", "no descriptors")


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    settings = EvalSettings(
        device="cpu",
        source_rules=False,
        timeout_s=float(os.environ.get("PASSNET_TEST_TIMEOUT_S", "20")),
        trials=8,
        warmup=2,
        time_budget_s=1.0,
        memory_limit_bytes=1 << 30,
        regimes=("recorded",),
    )
    with Evaluator(settings) as running:
        yield running


def write_sample(folder: Path, fault: str, top: str = "") -> Path:
    folder.chmod(0o755)
    code = "import torch\nclass GraphModule(torch.nn.Module):\n    def forward(self, in_0, in_1):\n"
    code += "        tmp_0 = in_0 + in_1\n        tmp_1 = torch.relu(tmp_0)\n        return (tmp_1,)\n"
    for rows in ROWS:
        metas = [
            TensorMeta(name=n, original_name=n, shape=(rows, 64), dtype="float32", mean=0.0, std=1.0)
            for n in ("in_0", "in_1")
        ]
        write_graph(folder / "graphs" / str(rows), code=code, metas=metas, info={"framework": "torch"})
    (folder / "graph_list.txt").write_text("".join(f"graphs/{rows}\n" for rows in ROWS))
    (folder / "pass_dir").mkdir()
    (folder / "pass_dir" / "sorted_output_pass_rule_names.json").write_text(json.dumps(["P"]))
    (folder / "pass_dir" / "P.py").write_text(PASS.format(fault=fault.strip(), top=top))
    return folder


def left_running(evaluator: Evaluator) -> list[int]:
    assert evaluator._zygote is not None and evaluator._references is not None
    idle = evaluator._references.idle_pids  # reference workers, which wait for the next graph
    return [pid for pid in descendants(evaluator._zygote._process.pid)[1:] if pid not in idle]


def verdicts(results: list[GraphResult]) -> list[Verdict]:
    return [result.verdict for result in results]


@pytest.mark.parametrize(
    "name", [n if n in SLICE else pytest.param(n, marks=pytest.mark.full) for n in FAULTS]
)
def test_a_fault_costs_one_graph_its_verdict(name: str, evaluator: Evaluator, tmp_path: Path) -> None:
    fault, verdict, words = FAULTS[name]
    results = evaluator.evaluate(read_sample(write_sample(tmp_path, fault)))
    assert verdicts(results) == [Verdict.CORRECT, verdict, Verdict.CORRECT], [r.reason for r in results]
    assert words in results[1].reason
    assert left_running(evaluator) == []
    assert len(results[1].log_tail) <= 1 << 20


def test_an_exit_during_import_is_one_verdict_per_graph(evaluator: Evaluator, tmp_path: Path) -> None:
    results = evaluator.evaluate(read_sample(write_sample(tmp_path, "pass", top="os._exit(3)")))
    assert verdicts(results) == [Verdict.RUNTIME_FAIL] * 3
    assert all("exited with status 3" in result.reason for result in results)
    assert left_running(evaluator) == []


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.full)])
def test_children_killed_at_random_moments(kills: int, evaluator: Evaluator, tmp_path: Path) -> None:
    sample = read_sample(write_sample(tmp_path, "pass"))
    moments = random.Random(1234 + kills)
    for _ in range(kills):
        done = threading.Event()

        def strike(delay: float = moments.uniform(0.02, 2.5), done: threading.Event = done) -> None:
            if not done.wait(delay):
                victims = left_running(evaluator)
                if victims:
                    try:
                        os.kill(moments.choice(victims), signal.SIGKILL)
                    except ProcessLookupError:
                        pass

        thread = threading.Thread(target=strike)
        thread.start()
        results = evaluator.evaluate(sample, only=(1, 2))
        done.set()
        thread.join()
        allowed = {Verdict.CORRECT, Verdict.RUNTIME_FAIL, Verdict.EAGER_FAIL, Verdict.COMPILE_FAIL}
        # eager's process may be hit too
        assert set(verdicts(results)) <= allowed, [r.reason for r in results]
        assert sum(v is not Verdict.CORRECT for v in verdicts(results)) <= 1
        assert left_running(evaluator) == []
    assert verdicts(evaluator.evaluate(sample, only=(0,))) == [Verdict.CORRECT]


def test_a_killed_candidate_is_gone_within_two_seconds(evaluator: Evaluator, tmp_path: Path) -> None:
    sample = read_sample(write_sample(tmp_path, "while True: pass"))
    limit = evaluator.settings.timeout_s
    start = time.monotonic()
    (result,) = evaluator.evaluate(sample, only=(1,))
    assert result.verdict is Verdict.TIMEOUT
    assert left_running(evaluator) == []
    assert time.monotonic() - start < 2 * limit  # loading once before, and the limit itself
