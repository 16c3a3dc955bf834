"""Every example sample under every compiler: one table of speedups against eager.

    python benchmarks/example_samples.py [--device cuda] [--compilers A,B] [--only TEXT] [--shard I/N]
                                         [--jobs N] [--out FILE.md]

Each graph is evaluated as `passbench eval` does it: verified on recorded and random inputs, then timed in
turns with eager within one process. Results are kept as they come in FILE.jsonl beside the table; a run that
was stopped goes on where it was when started again with --resume.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pass_bench.batch.executor import Measured
from pass_bench.batch.local import LocalExecutor
from pass_bench.batch.tasks import graph_tasks, sample_tasks
from pass_bench.compilers import compiler_named
from pass_bench.data import Graph, read_graph
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.verdict import Verdict

SAMPLES = Path(__file__).resolve().parent.parent / "samples" / "fusible_subgraphs"
COMPILERS = {
    "cuda": ("nope", "inductor", "inductor_direct", "pass_mgr", "pass_mgr_direct", "pass_mgr_graph"),
    "cpu": ("nope", "inductor", "inductor_direct", "pass_mgr", "pass_mgr_direct"),
}
LARGE = 8 * 2**20
SIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}


def largest_tensor(graph: Graph) -> int:
    """Bytes of the largest input."""
    sizes = []
    for meta in graph.metas.values():
        count = SIZES.get(meta.dtype, 1)
        for dim in meta.shape:
            count *= dim
        sizes.append(count)
    return max(sizes)


def usable(result: GraphResult) -> bool:
    """Whether the result is correct and its time is a speed."""
    return result.verdict is Verdict.CORRECT and result.e2e is not None and not result.interpreted


def geometric_mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return statistics.geometric_mean(found) if found else None


def evaluate(arguments: argparse.Namespace, log: Path) -> tuple[list[GraphResult], EnvironmentRecord]:
    """Run what `log` does not hold yet; returns all results. While one graph is timed, others prepare."""
    done = (
        [GraphResult.model_validate_json(line) for line in log.read_text().splitlines()]
        if log.exists()
        else []
    )
    have = {(result.compiler, result.sample, result.graph) for result in done}
    samples = [task for task in sample_tasks([SAMPLES], None, None) if arguments.only in task.name]
    samples = samples[arguments.shard[0] :: arguments.shard[1]]
    uses = [(name, compiler_named(name).uses_passes) for name in arguments.compilers]
    tasks = [
        task
        for task in graph_tasks(samples, uses)
        if (task.compiler, str(task.owner.sample.path), task.listed) not in have
    ]
    settings = EvalSettings(
        compiler=arguments.compilers[0],
        device=arguments.device,
        trials=arguments.trials,
        time_budget_s=arguments.time_budget,
    )
    with (
        log.open("a") as kept,
        LocalExecutor(settings, tuple(arguments.compilers), ["auto"], arguments.jobs) as executor,
    ):

        def keep(item: Measured) -> None:
            result = item.result
            kept.write(result.model_dump_json() + "\n")
            kept.flush()
            done.append(result)
            speed = f"{result.e2e.speedup:.2f}" if result.e2e else "-"
            print(f"{result.compiler} {Path(result.graph).name}: {result.verdict.value} {speed}", flush=True)
            if result.reason:
                print(f"    {result.reason}", flush=True)

        executor.run(tasks, keep, lambda: False)
        return done, executor.environments()[0]


def cell(result: GraphResult | None) -> str:
    if result is None:
        return ""
    if result.interpreted:
        return f"{result.verdict.value}, interpreted"
    if result.e2e is None:
        return result.verdict.value
    speed = f"{result.e2e.speedup:.2f}" + ("~" if result.e2e.noisy else "")
    return speed if result.verdict is Verdict.CORRECT else f"{result.verdict.value} ({speed})"


def eager_cell(results: Sequence[GraphResult]) -> str:
    times = [result.e2e.eager.median_us for result in results if result.e2e is not None]
    return f"{statistics.median(times):.1f}" if times else ""


def markdown(results: Sequence[GraphResult], environment: EnvironmentRecord, compilers: Sequence[str]) -> str:
    """The table: a row per graph, geometric means below, the small and the large graphs apart."""
    by_graph: dict[tuple[str, str], dict[str, GraphResult]] = {}
    for result in results:
        by_graph.setdefault((result.sample, result.graph), {})[result.compiler] = result
    small: list[tuple[str, str]] = []
    large: list[tuple[str, str]] = []
    for key in by_graph:
        size = largest_tensor(read_graph(Path(key[0]) / key[1]))
        (large if size > LARGE else small).append(key)
    command = shlex.join(["python", *sys.argv])
    lines = [
        "# The example samples",
        "",
        f"`{command}` on {environment.device_name or environment.cpu}: torch {environment.torch}, "
        f"triton {environment.triton or 'none'}, driver {environment.driver or 'none'}, "
        f"Python {environment.python}, commit {environment.commit or 'unknown'}.",
        "",
        "Speedup against eager, end to end, medians of trials taken in turns within one process; `~`: the "
        "95 % interval stayed wider than 2 %. eager: its median over the compilers' runs, in µs.",
    ]
    for title, keys in (("Batch 1", small), ("Above 8 MB", large)):
        lines += ["", f"## {title}", "", "| graph | eager µs | " + " | ".join(compilers) + " |"]
        lines.append("|---|---:|" + "---:|" * len(compilers))
        for sample, graph in keys:
            row = by_graph[sample, graph]
            name = f"{'/'.join(Path(sample).parts[-2:])} {Path(graph).name.split('_0_')[-1]}"
            cells = [eager_cell(list(row.values())), *(cell(row.get(compiler)) for compiler in compilers)]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("| **geometric mean** | | " + " | ".join(_means(by_graph, keys, compilers)) + " |")
    lines += ["", "## All", "", "| | " + " | ".join(compilers) + " |", "|---|" + "---:|" * len(compilers)]
    everything = [*small, *large]
    lines.append("| correct at t = -5 | " + " | ".join(_correct(by_graph, everything, compilers)) + " |")
    lines.append("| speedup, geometric mean | " + " | ".join(_means(by_graph, everything, compilers)) + " |")
    lines.append(
        "| speedup where timed, right or not | " + " | ".join(_timed(by_graph, everything, compilers)) + " |"
    )
    for other in ("inductor", "inductor_direct"):
        if other in compilers:
            ratios = _means(by_graph, everything, compilers, against=other)
            lines.append(f"| against {other}, where both are right | " + " | ".join(ratios) + " |")
    return "\n".join(lines) + "\n"


Keys = Sequence[tuple[str, str]]
Rows = dict[tuple[str, str], dict[str, GraphResult]]


def _correct(rows: Rows, keys: Keys, compilers: Sequence[str]) -> list[str]:
    cells = []
    for compiler in compilers:
        found = [rows[key][compiler] for key in keys if compiler in rows[key]]
        cells.append(f"{sum(r.verdict is Verdict.CORRECT for r in found)} of {len(found)}")
    return cells


def _timed(rows: Rows, keys: Keys, compilers: Sequence[str]) -> list[str]:
    """Geometric means of all speeds: no compiler is judged only by the graphs that it gets right."""
    cells = []
    for compiler in compilers:
        found = [rows[key][compiler] for key in keys if compiler in rows[key]]
        speeds = [r.e2e.speedup for r in found if r.e2e is not None and not r.interpreted]
        mean = geometric_mean(speeds)
        cells.append("" if mean is None else f"{mean:.2f} ({len(speeds)})")
    return cells


def _means(rows: Rows, keys: Keys, compilers: Sequence[str], against: str = "") -> list[str]:
    """Geometric means over the graphs that both are right on; against another compiler: of the ratios."""
    cells = []
    for compiler in compilers:
        speeds = []
        for key in keys:
            one, other = rows[key].get(compiler), rows[key].get(against)
            if one is None or not usable(one) or (against and (other is None or not usable(other))):
                continue
            base = other.e2e.speedup if other is not None and other.e2e is not None and against else 1.0
            assert one.e2e is not None
            speeds.append(one.e2e.speedup / base)
        mean = geometric_mean(speeds)
        cells.append("" if mean is None else f"{mean:.2f} ({len(speeds)})")
    return cells


def part(text: str) -> tuple[int, int]:
    """Read "2/3", the second of three parts, as (1, 3)."""
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count):
        raise ValueError(text)
    return int(number) - 1, int(count)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--compilers", default="", help="with commas; all that the device has unless given")
    parser.add_argument("--only", default="", help="only samples whose path holds this text")
    parser.add_argument("--shard", type=part, default=(0, 1), help="2/3: the second of every three samples")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--time-budget", type=float, default=5.0, help="seconds for the trials of one graph")
    parser.add_argument("--jobs", type=int, default=1, help="graphs in work at a time; one of them is timed")
    parser.add_argument("--out", type=Path, default=Path("example_samples.md"))
    parser.add_argument("--resume", action="store_true", help="keep what a stopped run has measured")
    arguments = parser.parse_args()
    log = arguments.out.with_suffix(".jsonl")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    if not arguments.resume:
        log.unlink(missing_ok=True)
    device = arguments.device
    if device == "auto":
        device = "cuda" if Path("/dev/nvidiactl").exists() else "cpu"
    named = [name for name in arguments.compilers.split(",") if name]
    arguments.compilers = named or list(COMPILERS[device])
    results, environment = evaluate(arguments, log)
    results = [result for result in results if arguments.only in result.sample]
    table = markdown(results, environment, arguments.compilers)
    arguments.out.write_text(table)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
