"""The rewritten example graphs in a CUDA graph: what `pass_mgr_graph` adds to a bare replay.

    python benchmarks/graph_replay.py [--trials 200] [--only TEXT] [--out FILE.md] [--check]

Per graph, timed in turns within one process, from before the call to after the synchronise: eager; a bare
replay of the rewritten graph, which looks at nothing and hands out the same memory each time;
`pass_mgr_graph` with inputs at the addresses of the recording, and with inputs at addresses that change with
each call, so that they are copied. Needs a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from host_overhead import environment, replayed

from pass_bench.compilers import compiler_named
from pass_bench.data import read_graph, read_sample
from pass_bench.fx import load_module
from pass_bench.inputs import make_inputs
from pass_bench.passes import load_passes
from pass_bench.timing.interleave import FreshInputs, Plan, clone_like, time_block
from pass_bench.timing.stats import compare

SAMPLES = Path(__file__).resolve().parent.parent / "samples" / "fusible_subgraphs"
MOST_OVER_REPLAY = 1.3
NAMES = ("eager", "bare replay", "pass_mgr_graph", "copying")
SETS = 3  # of inputs, taken in turns where they are to be copied


class MovingInputs:
    """The same values at another address in each call."""

    def __init__(self, values: Sequence[object]) -> None:
        sets = [[clone_like(v) if isinstance(v, torch.Tensor) else v for v in values] for _ in range(SETS)]
        self._sets = cycle(sets)

    def take(self) -> list[object]:
        """Return arguments for one call."""
        return list(next(self._sets))


@dataclass(frozen=True)
class Row:
    """Medians in microseconds, in the order of NAMES, and what kept the graph from being replayed."""

    name: str
    medians: tuple[float, ...]
    ratio: float  # `pass_mgr_graph` over the bare replay: median over the rounds
    note: str


def measure(sample: Path, trials: int) -> list[Row]:
    """One row per graph of a sample."""
    rows = []
    for reference in read_sample(sample).graphs:
        graph = read_graph(reference.path)
        module = load_module(graph, "cuda")
        inputs = make_inputs(graph, device="cuda")
        rules = load_passes(sample / "pass_dir", device="cuda").rules

        kept: list[list[object]] = []  # what was compiled on, so that no input comes to lie where it lay

        def compiled(name: str, graph=graph, module=module, inputs=inputs, rules=rules, kept=kept):  # type: ignore[no-untyped-def]
            copies = [clone_like(v) if isinstance(v, torch.Tensor) else v for v in inputs]
            kept.append(copies)
            return compiler_named(name).compile(module, graph, copies, rules, "cuda")

        with torch.no_grad():
            direct, graphed, moving = map(compiled, ("pass_mgr_direct", "pass_mgr_graph", "pass_mgr_graph"))
            if not any(report.replaced for report in direct.reports):
                print(f"{reference.path.name}: a pass did not match", file=sys.stderr)
            calls = [module, replayed(direct.call, inputs), graphed.call, moving.call]
            expected = module(*inputs)
            for call in calls[1:]:
                for one, two in zip(call(*inputs), expected, strict=True):
                    torch.testing.assert_close(one, two, rtol=2e-2, atol=1e-2)
            fixed = FreshInputs(inputs)
            plan = Plan(trials, 30, order_seed=1, seed=1024, device="cuda", budget_s=20.0)
            times = time_block(calls, [fixed, fixed, fixed, MovingInputs(inputs)], plan)
        name = f"{sample.name} {graph.name.split('_0_')[-1]}"
        medians = tuple(statistics.median(values) / 1000 for values in times)
        rows.append(Row(name, medians, compare(times[2], times[1], seed=1).speedup, graphed.note))
        print(f"{name}: " + ", ".join(f"{m:.1f}" for m in medians), file=sys.stderr, flush=True)
        torch.cuda.empty_cache()
    return rows


def table(rows: list[Row]) -> str:
    """The rows as Markdown, batch 1 and above 8 MB apart, worst and mean ratio below each."""
    lines = []
    small = [row for row in rows if row.name.endswith("_batch1")]
    for title, some in (("Batch 1", small), ("Above 8 MB", [row for row in rows if row not in small])):
        if not some:
            continue
        lines += [f"## {title}", "", f"| graph | {' | '.join(NAMES)} | to bare replay | note |"]
        lines.append("|---|" + "---:|" * 5 + "---|")
        for row in some:
            cells = [f"{median:.1f}" for median in row.medians]
            lines.append(f"| {row.name} | {' | '.join(cells)} | {row.ratio:.3f} | {row.note} |")
        lines += ["", summary(some), ""]
    return "\n".join([*lines, f"All: {summary(rows)}"])


def summary(rows: list[Row]) -> str:
    """One line on the ratios to the bare replay."""
    ratios = [row.ratio for row in rows]
    held = sum(ratio <= MOST_OVER_REPLAY for ratio in ratios)
    return (
        f"`pass_mgr_graph` to a bare replay: geometric mean {statistics.geometric_mean(ratios):.3f}, largest "
        f"{max(ratios):.3f}; at most {MOST_OVER_REPLAY} in {held} of {len(ratios)}."
    )


def main() -> int:
    """Measure and print; with --check the exit code says whether every graph keeps the bound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", default="", help="samples whose path holds this text")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    samples = [path.parent for path in sorted(SAMPLES.glob("*/*/graph_list.txt")) if chosen.only in str(path)]
    # A process per sample: each has a package `pass_dir` of its own.
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        measured = pool.map(partial(measure, trials=chosen.trials), samples, chunksize=1)
    rows = [row for part in measured for row in part]
    how = f"Microseconds, medians of {chosen.trials} trials in turns; ratios are medians over the rounds."
    text = f"{environment('cuda')}\n\n{how}\n\n{table(rows)}"
    print(text)
    if chosen.out:
        chosen.out.write_text(f"# CUDA graph replay\n\n`python benchmarks/graph_replay.py`\n\n{text}\n")
    return 1 if chosen.check and any(row.ratio > MOST_OVER_REPLAY for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
