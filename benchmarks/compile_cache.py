"""How long the kernels of a sample take to compile: one graph after another, in parallel, and not at all.

    python benchmarks/compile_cache.py [--device cuda] [--out FILE.md] [--check]

The sample silu_mul with a Triton pass that tunes itself over nine configurations (its C++ pass on the CPU)
is evaluated three times with the shortest of trials: with an empty cache, graph after graph; with an empty
cache, compiled in parallel first; and again, from what the second run has kept. --check: the last one must
compile no kernel and tune none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.worker.evaluate import Evaluator

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "samples" / "fusible_subgraphs" / "Llama-3.2-1B" / "silu_mul"
TUNED = '''"""Triton: one read of both inputs, tuned."""

import torch
import triton
import triton.language as tl
from pass_dir._pattern import pattern, replacement_args
from triton.language.extra import libdevice

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cuda",)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (512, 1024, 2048) for w in (2, 4, 8)],
    key=["count"],
)
@triton.jit
def _kernel(gate, up, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    active = tl.div_rn(g, 1.0 + libdevice.exp(-g)).to(gate.dtype.element_ty).to(tl.float32)
    tl.store(out + at, active * u, mask=inside)


@torch.fx.wrap
def silu_mul(gate, up):
    out = torch.empty_like(gate)
    count = gate.numel()
    _kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](gate, up, out, count)
    return out


def replacement_func():
    return silu_mul
'''


@dataclass(frozen=True)
class Run:
    """One evaluation: seconds to compile ahead, to prepare each graph, and what compiled files there are."""

    name: str
    ahead_s: float
    prepare_s: tuple[float, ...]
    verdicts: tuple[str, ...]
    files: dict[str, int]  # time of writing by name


def evaluated(name: str, sample: Path, store: Path, settings: EvalSettings, parallel: bool) -> Run:
    """Evaluate all graphs of the sample, and look at what is in the store afterwards."""
    os.environ["PASSNET_PASS_CACHE"] = str(store)
    read = read_sample(sample)
    with Evaluator(settings) as evaluator:
        names = evaluator.check(read)
        start = time.monotonic()
        if parallel:
            evaluator.precompile(read)
        ahead = time.monotonic() - start
        results = [evaluator.evaluate_graph(read, i, names=names) for i in range(len(read.graphs))]
    files = {
        str(path.relative_to(store)): path.stat().st_mtime_ns
        for path in store.rglob("*")
        if path.suffix in (".cubin", ".so") or path.name.endswith(".autotune.json")
    }
    prepared = tuple(result.phases.prepare_s for result in results if result.phases is not None)
    verdicts = tuple(f"{result.verdict.value} {result.reason[:60]}".strip() for result in results)
    print(f"{name}: {ahead:.1f} s ahead, then {prepared}, {verdicts}", file=sys.stderr, flush=True)
    return Run(name, ahead, prepared, verdicts, files)


def kernels(run: Run, before: Run | None) -> tuple[int, int]:
    """How many kernels a run compiled and how many tunings it did: files that were not there before it."""
    known = before.files if before is not None else {}
    new = [name for name, written in run.files.items() if known.get(name) != written]
    tuned = sum(name.endswith(".json") for name in new)
    return len(new) - tuned, tuned


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    settings = EvalSettings(device=args.device, warmup=2, trials=5, time_budget_s=0.5, guards=False)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        sample = folder / "sample"
        shutil.copytree(SAMPLE / "pass_dir", sample / "pass_dir")
        shutil.copy(SAMPLE / "graph_list.txt", sample)
        (sample / "graphs").symlink_to(ROOT / "graphs")
        (sample / "pass_dir" / "silu_mul_cuda.py").write_text(TUNED)
        after = evaluated("one graph after another", sample, folder / "first", settings, False)
        ahead = evaluated("in parallel first", sample, folder / "second", settings, True)
        again = evaluated("again, from the cache", sample, folder / "second", settings, True)
    lines = ["| run | compiled ahead s | prepared s, graph by graph | in all s | kernels | tunings |"]
    lines.append("|---|---:|---|---:|---:|---:|")
    for run, before in ((after, None), (ahead, None), (again, ahead)):
        compiled, tuned = kernels(run, before)
        each = ", ".join(f"{seconds:.1f}" for seconds in run.prepare_s)
        total = run.ahead_s + sum(run.prepare_s)
        lines.append(f"| {run.name} | {run.ahead_s:.1f} | {each} | {total:.1f} | {compiled} | {tuned} |")
    text = "\n".join(lines)
    print(text)
    if args.out:
        args.out.write_text(
            f"# Compiling\n\n`python benchmarks/compile_cache.py`, {os.cpu_count()} cores\n\n{text}\n"
        )
    return 1 if args.check and any(kernels(again, ahead)) else 0


if __name__ == "__main__":
    sys.exit(main())
