"""How true is a speedup of 1.00 on a GPU? Identical code timed against itself, 20 graphs, 10 processes each.

    python benchmarks/aa_gpu.py [--device 0] [--limit-s 200] [--out FILE.md]

Evaluates graphs of the evaluation lists (benchmarks/eval_graphs.py) under the control compiler `nope`, whose
compiled graph is the eager module itself, as `passbench batch` does it: while one graph is timed, the next
ones prepare. The exit code says whether 95 % of the speedups are within 2 % of 1.00 and none is lost.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from eval_graphs import sample_list

from pass_bench.batch.commands import default_jobs
from pass_bench.batch.executor import Measured
from pass_bench.batch.local import LocalExecutor
from pass_bench.batch.tasks import GraphTask, graph_tasks, sample_tasks
from pass_bench.results.records import EvalSettings, GraphResult

NEEDED_SHARE, WITHIN = 0.95, 0.02


def chosen_tasks(graphs: int) -> list[GraphTask]:
    """Return one graph of each of the first samples, then the second of each, until there are enough."""
    path, root = sample_list(5 * graphs)
    tasks = graph_tasks(sample_tasks([path], root, None), [("nope", False)])
    order: dict[str, list[GraphTask]] = defaultdict(list)
    for task in tasks:
        order[task.owner.name].append(task)
    rows = [members[place] for place in range(12) for members in order.values() if place < len(members)]
    return rows[:graphs]


def off(result: GraphResult) -> float:
    """Return how far the speedup is from 1, relative."""
    assert result.e2e is not None
    return max(result.e2e.speedup, 1 / result.e2e.speedup) - 1


def plainly_within(timed: list[GraphResult]) -> float:
    """Return the share of the ratios of plain medians that are within 2 %."""
    pairs = [
        (r.e2e.eager.plain_median_us, r.e2e.compiled.plain_median_us) for r in timed if r.e2e is not None
    ]
    ratios = [eager / compiled for eager, compiled in pairs if eager and compiled]
    return sum(max(ratio, 1 / ratio) - 1 <= WITHIN for ratio in ratios) / max(1, len(ratios))


def quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def report(results: dict[str, list[GraphResult]], wanted: int, seconds: float, device: str, jobs: int) -> str:
    """Return the tables in Markdown."""
    everything = [result for each in results.values() for result in each]
    timed = [result for result in everything if result.e2e is not None]
    distances = [off(result) for result in timed]
    within = sum(distance <= WITHIN for distance in distances)
    lines = [
        f"{device}, {jobs} graphs in work at a time.",
        "",
        f"{len(timed)} of {wanted} timed in {seconds:.0f} s ({seconds / max(1, len(timed)):.2f} s each)",
    ]
    lost = [result for result in everything if result.e2e is None]
    lines += [f"Lost: {Path(r.graph).name}: {r.verdict.value}: {r.reason[:150]}" for r in lost[:10]]
    if timed:
        holds = sum(r.e2e.low <= 1 <= r.e2e.high for r in timed if r.e2e is not None)
        trials = sorted(r.e2e.eager.trials for r in timed if r.e2e is not None)
        lines += [
            f"Within 2 % of 1.00: {within} of {len(timed)}, {100 * within / len(timed):.1f} %.",
            f"95 % are within {100 * quantile(distances, 0.95):.2f} %, half within "
            f"{100 * median(distances):.2f} %; the furthest are off by "
            + ", ".join(f"{100 * distance:.1f} %" for distance in sorted(distances)[-5:])
            + ".",
            f"By the ratio of plain medians: {100 * plainly_within(timed):.1f} %.",
            f"The interval holds 1.00 in {holds} ({100 * holds / len(timed):.1f} %); noisy: "
            f"{sum(r.e2e.noisy for r in timed if r.e2e is not None)}.",
            f"Trials: median {median(trials):.0f}, from {trials[0]} to {trials[-1]}; the device was held for "
            f"{mean(r.phases.time_s for r in timed):.2f} s a pair on average.",
        ]
    lines += [
        "",
        "| graph | runs | eager µs | trials | noisy | speedups from | to | within 2 % |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in results.items():
        pairs = [result.e2e for result in each if result.e2e is not None]
        if pairs:
            near = sum(off(result) <= WITHIN for result in each if result.e2e is not None)
            lines.append(
                f"| {name} | {len(pairs)} | {median(p.eager.median_us for p in pairs):.1f} "
                f"| {median(p.eager.trials for p in pairs):.0f} | {sum(p.noisy for p in pairs)} "
                f"| {min(p.speedup for p in pairs):.3f} | {max(p.speedup for p in pairs):.3f} | {near} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="0", help="a GPU's number, or cpu")
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--jobs", type=int, help="graphs in work at a time")
    parser.add_argument("--no-hush", dest="hush", action="store_false", help="other graphs go on meanwhile")
    parser.add_argument("--limit-s", type=float, default=200.0, help="no pair is begun after so many seconds")
    parser.add_argument("--out", type=Path, help="write the tables here as well")
    options = parser.parse_args()
    cpu = options.device == "cpu"
    jobs = options.jobs or default_jobs(0 if cpu else 1)
    settings = EvalSettings(
        compiler="nope", device="cpu" if cpu else "cuda", trials=options.trials, timeout_s=60, time_budget_s=8
    )
    tasks = chosen_tasks(options.graphs)
    repeated = [replace(task) for _ in range(options.runs) for task in tasks]
    results: dict[str, list[GraphResult]] = defaultdict(list)
    start = time.monotonic()
    device = ""

    def keep(item: Measured) -> None:
        nonlocal device
        device = item.environment.device_name
        name = f"{Path(item.task.owner.name).name[:6]}/{item.task.index} {Path(item.task.listed).name}"
        results[name].append(item.result)
        count = sum(map(len, results.values()))
        if count % len(tasks) == 0:
            print(f"{count} of {len(repeated)} pairs, {time.monotonic() - start:.0f} s", flush=True)

    with LocalExecutor(settings, ("nope",), [options.device], jobs, hush=options.hush) as executor:
        executor.run(repeated, keep, lambda: time.monotonic() - start > options.limit_s)
    text = report(results, len(repeated), time.monotonic() - start, device, jobs)
    print(text)
    if options.out is not None:
        command = f"`python benchmarks/aa_gpu.py {' '.join(sys.argv[1:])}`".replace(" `", "`")
        options.out.write_text(f"# Identical code against itself on a GPU\n\n{command}\n\n{text}\n")
    timed = [result for each in results.values() for result in each if result.e2e is not None]
    complete = len(timed) == len(repeated)
    within = sum(off(result) <= WITHIN for result in timed)
    return 0 if complete and within >= NEEDED_SHARE * len(timed) else 1


if __name__ == "__main__":
    sys.exit(main())
