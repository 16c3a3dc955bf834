"""Passes that crash, hang or grow on the second of three graphs: what it costs, how fast they are gone."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pass_bench.data import read_sample
from pass_bench.data.graph import write_graph
from pass_bench.data.records import TensorMeta
from pass_bench.errors import HarnessFailure, PassBenchError
from pass_bench.guard.processes import descendants
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.processes import Child

ROWS = (4, 8, 12)  # of the three graphs; the pass misbehaves on the second one
GONE_S = {"cpu": 2.0, "cuda": 10.0}  # from the kill until nothing is left
_CPU_KERNELS = """
add_relu = cpp_kernel(
    "void add_relu(const float* x, const float* y, float* out, int64_t n) {"
    "  for (int64_t i = 0; i < n; ++i) out[i] = x[i] + y[i] > 0 ? x[i] + y[i] : 0; }",
    "add_relu(const float* x, const float* y, float* out, int64_t n)",
)
spin = cpp_kernel(
    "void spin(const float* x) { for (volatile int i = 0;; i = i + 1); }", "spin(const float* x)"
)
"""
_GPU_KERNELS = """
add_relu = cuda_kernel(
    "__global__ void add_relu(const float* x, const float* y, float* out, int64_t n) {"
    "  const int64_t i = blockIdx.x * 256 + threadIdx.x;"
    "  if (i < n) out[i] = x[i] + y[i] > 0 ? x[i] + y[i] : 0; }",
    "add_relu(const float* x, const float* y, float* out, int64_t n)",
)[4, 256]
spin = cuda_kernel(
    "__global__ void spin(const float* x) { volatile const float* p = x; while (p[0] == p[0]); }",
    "spin(const float* x)",
)[1, 32]
wild = cuda_kernel(
    "__global__ void wild(float* x) { *(volatile float*)(((uint64_t)x & 255) + 4096) = 1; }",
    "wild(float* x)",
)[1, 1]
trap = cuda_kernel("__global__ void trap(float* x) { asm volatile(\\"trap;\\"); }", "trap(float* x)")[1, 1]
"""
_PASS = """
import ctypes, os, signal, sys, time
import torch
from pass_bench.kernels import cpp_kernel, cuda_kernel
flood = [1024]  # MiB, in the first call
{top}
{kernels}

def pattern(x, y):
    return torch.relu(x + y)

def replacement_args(x, y):
    return (x, y)

@torch.fx.wrap
def fused(x, y):
    if x.shape[0] == 8:
        {fault}
    out = torch.empty_like(x)
    add_relu(x, y, out, x.numel())
    return out

def replacement_func():
    return fused
"""
_FORK_BOMB = """
        children = 0
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
                children += 1
                assert children < 5000, "nothing stopped it"
            except BlockingIOError:
                raise RuntimeError(f"no more processes after {children}")
"""
_ALLOCATION = """
        blocks = []
        for _ in range(160):
            blocks.append(bytearray(b"x") * (64 << 20))
            time.sleep(0.02)
"""
_FLOOD = """
        for _ in range(flood.pop() if flood else 16):
            os.write(1, b"x" * (1 << 20))
"""


@dataclass(frozen=True)
class Fault:
    """What a pass does on the second graph, the verdict that this costs, and words one of which says why."""

    name: str
    code: str
    verdict: Verdict
    words: tuple[str, ...] = ()
    gpu: bool = False
    top: str = ""  # at import, on all graphs


NOTHING = Fault("nothing", "pass", Verdict.CORRECT)
FAULTS = (
    Fault("segfault", "ctypes.string_at(0)", Verdict.RUNTIME_FAIL, ("SIGSEGV",)),
    Fault("abort", "os.abort()", Verdict.RUNTIME_FAIL, ("SIGABRT",)),
    Fault("exit", "os._exit(0)", Verdict.RUNTIME_FAIL, ("exited with status 0",)),
    Fault("exit in import", "pass", Verdict.RUNTIME_FAIL, ("exited with status 3",), top="os._exit(3)"),
    Fault("killed", "os.kill(os.getpid(), signal.SIGKILL)", Verdict.RUNTIME_FAIL, ("SIGKILL",)),
    Fault("python loop", "while True: pass", Verdict.TIMEOUT, ("no answer within",)),
    Fault("kernel loop", "spin(x)", Verdict.TIMEOUT, ("no answer within",)),
    Fault("stopped", "os.kill(os.getpid(), signal.SIGSTOP)", Verdict.TIMEOUT, ("no answer within",)),
    Fault(
        "fork bomb",
        _FORK_BOMB,
        Verdict.RUNTIME_FAIL,
        ("no more processes after", "Cannot allocate memory", "GiB of memory"),
    ),
    Fault("10 GiB", _ALLOCATION, Verdict.RUNTIME_FAIL, ("GiB of memory",)),
    Fault("1 GiB of output", _FLOOD, Verdict.CORRECT),
    Fault("no descriptors", "os.closerange(0, 4096)", Verdict.RUNTIME_FAIL, ("exited with status",)),
    Fault("recursion", "fused(x, y)", Verdict.RUNTIME_FAIL, ("RecursionError",)),
    Fault("illegal address", "wild(x)", Verdict.RUNTIME_FAIL, ("illegal",), gpu=True),
    Fault("trap", "trap(x)", Verdict.RUNTIME_FAIL, ("CUDA error",), gpu=True),
    Fault(
        "10 GiB of the GPU",
        "torch.empty(10 << 30, dtype=torch.uint8, device=x.device).fill_(1)",
        Verdict.CORRECT,
        gpu=True,
    ),
    Fault(
        "more than the GPU has",
        "torch.empty(1 << 40, dtype=torch.uint8, device=x.device)",
        Verdict.RUNTIME_FAIL,
        ("out of memory",),
        gpu=True,
    ),
)


@dataclass(frozen=True)
class FaultOutcome:
    """What became of the three graphs. `gone_s`: the longest that it took to end one of their processes."""

    fault: Fault
    verdicts: tuple[str, ...]
    reason: str
    gone_s: float
    seconds: float
    as_expected: bool


def says_why(fault: Fault, reason: str) -> bool:
    """Whether a reason names what a fault should end by."""
    return not fault.words or any(words in reason for words in fault.words)


class FaultEvaluator(Evaluator):
    """An evaluator that notes how long it takes to end each child and all that the child has started."""

    def __init__(self, device: str = "cpu", timeout_s: float = 20.0):
        super().__init__(fault_settings(device, timeout_s))
        self._of_thread = threading.local()

    def __enter__(self) -> FaultEvaluator:
        super().__enter__()
        return self

    def _start(self) -> None:
        super()._start()
        zygote: Any = self._zygote
        fork = zygote.fork

        def watched(role: Any) -> Child:
            child: Any = fork(role)
            end, taken = child._end, self.taken

            def timed() -> None:
                start = time.monotonic()
                end()
                taken.append(time.monotonic() - start)

            child._end = timed
            return child  # type: ignore[no-any-return]

        zygote.fork = watched

    @property
    def taken(self) -> list[float]:
        """Seconds of each kill of a child that the calling thread has started."""
        if not hasattr(self._of_thread, "taken"):
            self._of_thread.taken = []
        return self._of_thread.taken  # type: ignore[no-any-return]


def fault_settings(device: str, timeout_s: float) -> EvalSettings:
    """Few trials, one regime; 1 GiB of memory, on a GPU more, since CUDA maps gigabytes into each process."""
    return EvalSettings(
        device=device,  # type: ignore[arg-type]
        source_rules=False,
        timeout_s=timeout_s,
        trials=8,
        warmup=2,
        time_budget_s=1.0,
        guards=device == "cpu",  # several faults at once beside a GPU say nothing about times
        memory_limit_bytes=(1 if device == "cpu" else 6) << 30,
        regimes=("recorded",),
    )


def write_fault(folder: Path, fault: Fault, device: str = "cpu") -> Path:
    """Make a sample of three graphs whose pass has the fault; returns its directory."""
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
    kernels = _CPU_KERNELS if device == "cpu" else _GPU_KERNELS
    text = _PASS.format(fault=fault.code.strip(), top=fault.top, kernels=kernels)
    (folder / "pass_dir" / "P.py").write_text(text)
    return folder


def left_running(evaluator: Evaluator) -> list[int]:
    """Processes below an evaluator's zygote other than warm ones that wait for a graph."""
    assert evaluator._zygote is not None
    assert evaluator._references is not None and evaluator._candidates is not None
    idle = {*evaluator._references.idle_pids, *evaluator._candidates.idle_pids}
    return [pid for pid in descendants(evaluator._zygote._process.pid)[1:] if pid not in idle]


def run_fault(fault: Fault, evaluator: FaultEvaluator) -> FaultOutcome:
    """Evaluate the three graphs of a fault."""
    start = time.monotonic()
    evaluator.taken.clear()
    with tempfile.TemporaryDirectory(prefix="passnet-fault-") as folder:
        sample = read_sample(write_fault(Path(folder), fault, evaluator.device))
        try:
            results: list[GraphResult] = evaluator.evaluate(sample)
        except PassBenchError as error:
            return FaultOutcome(fault, (), f"not evaluated: {error}", 0.0, time.monotonic() - start, False)
    verdicts = tuple(result.verdict for result in results)
    expected = (Verdict.CORRECT, fault.verdict, Verdict.CORRECT) if not fault.top else (fault.verdict,) * 3
    gone_s = max(evaluator.taken, default=0.0)
    odd = [r.reason for r, verdict in zip(results, expected, strict=True) if r.verdict is not verdict]
    return FaultOutcome(
        fault=fault,
        verdicts=tuple(verdict.value for verdict in verdicts),
        reason=odd[0] if odd else results[1].reason,
        gone_s=gone_s,
        seconds=time.monotonic() - start,
        as_expected=verdicts == expected
        and says_why(fault, results[1].reason)
        and gone_s < GONE_S[evaluator.device],
    )


def run_faults(
    evaluator: FaultEvaluator,
    jobs: int = 1,
    on_outcome: Callable[[FaultOutcome], None] = lambda outcome: None,
    faults: Iterable[Fault] = FAULTS,
    seconds: float | None = None,
) -> list[FaultOutcome]:
    """Run the faults that make sense on the evaluator's device, several at once; none begins after `seconds`.

    Raises HarnessFailure where anything is left running in the end.
    """
    if evaluator.device == "cuda":  # so that not all of the first ones wait for libraries and compilers
        run_fault(NOTHING, evaluator)
    end = None if seconds is None else time.monotonic() + seconds
    outcomes = []

    def one(fault: Fault) -> FaultOutcome | None:
        return None if end is not None and time.monotonic() > end else run_fault(fault, evaluator)

    chosen = [fault for fault in faults if evaluator.device == "cuda" or not fault.gpu]
    # What waits for its time limit overlaps best if it begins first. A stopped process must be alone: others
    # are stopped while one is timed, and then told to go on, which would wake it.
    chosen.sort(key=lambda fault: (fault.verdict is not Verdict.TIMEOUT, fault.name))
    alone = [fault for fault in chosen if "SIGSTOP" in fault.code]
    for group in ([fault for fault in chosen if fault not in alone], alone):
        with ThreadPoolExecutor(jobs) as pool:
            for future in [pool.submit(one, fault) for fault in group]:
                outcome = future.result()
                if outcome is not None:
                    outcomes.append(outcome)
                    on_outcome(outcome)
    if left := left_running(evaluator):
        raise HarnessFailure(f"{len(left)} processes were left running")
    return outcomes
