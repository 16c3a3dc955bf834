"""How true is a speedup of 1.00? Identical code timed against itself on the CPU, many times.

    .venv/bin/python benchmarks/aa_cpu.py [--runs 20] [--budget 8] [--out benchmarks/aa_cpu.md]

Evaluates graphs under the control compiler `nope`, whose compiled graph is the eager module itself; counts
how often the 95 % interval of the speedup holds 1.00, and how wide intervals are. Each (run, graph) pair has
processes of its own. Real graphs come from ../shared/graphs where that folder is there, example graphs from
graphs/.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.worker.evaluate import Evaluator

ROOT = Path(__file__).resolve().parent.parent
SHARED = ("gn_hf_sadhaklal_mlp-iris", "gn_torchgeometric_Node2Vec", "gn_hf_microsoft_deberta-base",
          "gn_hf_ibm-research_MoLFormer-XL-both-10pct", "gn_hf_falcon-tiny-random",
          "gn_test_tiny-Swinv2ForImageClassification_0", "gn_hf_google_t5-efficient-base-el2")  # fmt: skip
WANTED = 10
SHARE_NEEDED, HALF_WIDTH_NEEDED = 0.9, 0.03


def graph_folders() -> list[Path]:
    """Return ten graphs: real ones where there are any, filled up with the examples' float32 ones."""
    shared = [ROOT.parent / "shared" / "graphs" / name for name in SHARED]
    found = [folder for folder in shared if (folder / "model.py").is_file()]
    examples = sorted(ROOT.glob("graphs/**/*_float32_batch1/model.py"))
    found += [model.parent for model in examples[: WANTED - len(found)]]
    return found[:WANTED]


def write_sample(folder: Path, graphs: list[Path]) -> Path:
    """Write a sample that lists the graphs."""
    (folder / "graphs").mkdir()
    for number, graph in enumerate(graphs):
        (folder / "graphs" / f"{number}_{graph.name}").symlink_to(graph)
    names = [f"graphs/{number}_{graph.name}\n" for number, graph in enumerate(graphs)]
    (folder / "graph_list.txt").write_text("".join(names))
    return folder


def holds_one(result: GraphResult) -> bool:
    """Whether the interval of the speedup holds 1."""
    return result.e2e is not None and result.e2e.low <= 1 <= result.e2e.high


def half_width(result: GraphResult) -> float:
    """Return half the width of the interval, relative to the speedup."""
    assert result.e2e is not None
    return (result.e2e.high - result.e2e.low) / 2 / result.e2e.speedup


def report(results: list[GraphResult], device: str, seconds: float, loads: list[float]) -> str:
    """Return the table in Markdown."""
    lines = [
        f"Identical code on {device}; load average of the machine while measuring: median "
        f"{statistics.median(loads):.1f}, largest {max(loads):.1f}.",
        "",
        "| graph | runs | eager µs | interval holds 1.00 | median half-width | speedups from | to |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(result.graph for result in results):
        mine = [result for result in results if result.graph == name]
        speedups = [result.e2e.speedup for result in mine if result.e2e is not None]
        eager = statistics.median(result.e2e.eager.median_us for result in mine if result.e2e is not None)
        lines.append(
            f"| {name.partition('_')[2]} | {len(mine)} | {eager:.4g} | {sum(map(holds_one, mine))} "
            f"| {100 * statistics.median(map(half_width, mine)):.2f} % "
            f"| {min(speedups):.3f} | {max(speedups):.3f} |"
        )
    held = sum(map(holds_one, results))
    middle = statistics.median(map(half_width, results))
    lines += [
        "",
        f"The interval holds 1.00 in {held} of {len(results)} pairs; median half-width {100 * middle:.2f} %; "
        f"{seconds / len(results):.1f} s per pair.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Measure and print; the exit code says whether the requirement holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of trials per pair")
    parser.add_argument("--out", type=Path, help="write the table here as well")
    chosen = parser.parse_args()
    settings = EvalSettings(
        compiler="nope",
        device="cpu",
        trials=chosen.trials,
        time_budget_s=chosen.budget,
        regimes=("recorded",),
    )
    results: list[GraphResult] = []
    loads = []
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, Evaluator(settings) as evaluator:
        sample = read_sample(write_sample(Path(folder), graph_folders()))
        for run in range(chosen.runs):
            for index in range(len(sample.graphs)):
                result = evaluator.evaluate_graph(sample, index, names=())
                loads.append(os.getloadavg()[0])
                if result.e2e is None:
                    print(f"{result.graph}: {result.verdict}: {result.reason}", file=sys.stderr)
                    return 3
                results.append(result)
            print(f"run {run + 1}: {sum(map(holds_one, results))} of {len(results)}", file=sys.stderr)
        assert evaluator.environment is not None
        device = evaluator.environment.device_name
    text = report(results, device, time.monotonic() - start, loads)
    print(text)
    if chosen.out is not None:
        command = f"`benchmarks/aa_cpu.py --runs {chosen.runs} --budget {chosen.budget:g}`"
        chosen.out.write_text(f"# Identical code against itself on a CPU\n\n{command}\n\n{text}\n")
    share = sum(map(holds_one, results)) / len(results)
    middle = statistics.median(map(half_width, results))
    return 0 if share >= SHARE_NEEDED and middle <= HALF_WIDTH_NEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
