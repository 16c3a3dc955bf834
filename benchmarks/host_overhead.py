"""What each compiler costs on the host: graphs of 1, 3, 10 and 30 small operators, beside the floor.

    python benchmarks/host_overhead.py [--device cuda] [--trials 300] [--out FILE.md] [--check]

Everything is timed in turns within one process: wall clock from before the call to after the synchronise,
medians and quartiles in microseconds; ratios are medians over the rounds. Floors: a bare loop with the same
inputs, `torch.empty` and the same kernel through its C launcher; a CUDA graph of that; one of eager, inputs
where they were recorded.
`pass_mgr_graph` is timed twice: with inputs where it recorded them, and with inputs that come elsewhere every
time and are copied. The first table has what must hold, the second everything.
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

import overhead_kernels as kernels
import torch

from pass_bench.compilers import compiler_named
from pass_bench.passes import PassRule
from pass_bench.results.records import Comparison, TimingStats
from pass_bench.timing.interleave import FreshInputs, Plan, time_block
from pass_bench.timing.stats import compare, timing_stats

LENGTHS = (1, 3, 10, 30)
SHAPE = (64, 256)
NAMES = ("x", "y", "w")
COMPILERS = {
    "cuda": (
        "inductor",
        "inductor_direct",
        "inductor_reduce_overhead",
        "pass_mgr",
        "pass_mgr_direct",
        "pass_mgr_graph",
    ),
    "cpu": ("inductor", "inductor_direct", "pass_mgr", "pass_mgr_direct"),
}
UNCHANGED = "pass_mgr_direct, no passes"
FLOOR = "floor: bare loop"
REPLAYED = "floor: graph replay of the kernel"
GRAPH = "pass_mgr_graph"
COPYING = "pass_mgr_graph, inputs copied"
MOST_OVER_EAGER = 1.01
MOST_OVER_FLOOR = 1.15
MOST_OVER_REPLAY = 1.3


class Chain(torch.nn.Module):
    """A graph of `length` operators."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: Any, y: Any, w: Any) -> Any:
        return (kernels.chain(x, y, w, self.length),)


def fusing_pass(length: int, function: Callable[..., Any]) -> PassRule:
    """The pass that puts one kernel in the place of the whole chain."""

    def pattern(x: Any, y: Any, w: Any) -> Any:
        return kernels.chain(x, y, w, length)

    def pattern_without_w(x: Any, y: Any) -> Any:
        return kernels.chain(x, y, None, length)

    if length == 1:  # w is not used: it is bound to y
        return PassRule("fuse", pattern_without_w, lambda x, y: (x, y, y, length), lambda: function)
    return PassRule("fuse", pattern, lambda x, y, w: (x, y, w, length), lambda: function)


kept: list[list[torch.Tensor]] = []  # what was compiled on, so that no input comes to lie where it lay


def compiled(name: str, length: int, inputs: list[torch.Tensor], rules: list[PassRule], device: str) -> Any:
    """A compiler's callable; says so where a pass did not match."""
    copies = [x.clone() for x in inputs]
    kept.append(copies)
    made = compiler_named(name).compile(Chain(length), NAMES, copies, rules, device)  # type: ignore[arg-type]
    for report in made.reports:
        if not report.replaced:
            raise SystemExit(f"{name}, {length} operators: the pass did not match: {report.nearest_miss}")
    if made.note:
        print(f"  {name}, {length} operators: {made.note}", file=sys.stderr)
    return made.call


def bare_loop(length: int, inputs: list[torch.Tensor], device: str) -> Callable[..., Any]:
    """torch.empty and the kernel's native launcher, nothing else."""
    x, y, w = inputs if length > 1 else (inputs[0], inputs[1], inputs[1])
    n, shape, dtype, place = x.numel(), x.shape, x.dtype, x.device
    if device == "cpu":
        native = kernels.cpp_chain.compile().func

        def cpu_loop(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            out = torch.empty(shape, dtype=dtype, device=place)
            native(x, y, w, out, n, length)
            return out

        return cpu_loop
    grid = (n + kernels.BLOCK - 1) // kernels.BLOCK
    out = torch.empty_like(x)
    launcher = kernels.direct_kernel
    launcher[(grid,)](x, y, w, out, n, length, kernels.BLOCK)
    form = next(f for f in reversed(launcher.forms.values()) if f is not None)
    constants = form.own[4:]
    head, native_launch = form.head, form.native
    stream = torch._C._cuda_getCurrentRawStream(x.device.index)
    if form.in_tuple:

        def tuple_loop(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            out = torch.empty(shape, dtype=dtype, device=place)
            native_launch(grid, 1, 1, stream, *head, (x, y, w, out, *constants))
            return out

        return tuple_loop

    def flat_loop(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        out = torch.empty(shape, dtype=dtype, device=place)
        native_launch(grid, 1, 1, stream, *head, x, y, w, out, *constants)
        return out

    return flat_loop


def replayed(call: Callable[..., Any], inputs: Sequence[object]) -> Callable[..., Any]:
    """A CUDA graph of a call at these addresses, replayed without looking at anything."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(*inputs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = call(*inputs)

    def replay(*_: Any) -> Any:
        graph.replay()
        return outputs

    return replay


def arms(length: int, inputs: list[torch.Tensor], device: str) -> dict[str, Callable[..., Any]]:
    """Everything that is timed on one graph, by name."""
    eager = Chain(length)
    rules = [fusing_pass(length, kernels.IDIOMS[device][0])]
    found: dict[str, Callable[..., Any]] = {"empty call": lambda *_: None, "eager": eager}
    found[UNCHANGED] = compiled("pass_mgr_direct", length, inputs, [], device)
    for name in COMPILERS[device]:
        found[name] = compiled(name, length, inputs, rules if name.startswith("pass_mgr") else [], device)
    found[FLOOR] = bare_loop(length, inputs, device)
    if device == "cuda":
        found[REPLAYED] = replayed(bare_on_current_stream(length), inputs)
        found["floor: graph replay of eager"] = replayed(eager, inputs)
        found[COPYING] = elsewhere(compiled(GRAPH, length, inputs, rules, device), inputs)
    return found


def elsewhere(call: Callable[..., Any], inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """A call whose inputs never come twice in a row at the same addresses, nor at those of a recording."""
    places = itertools.cycle([[x.clone() for x in inputs] for _ in range(2)])
    return lambda *_: call(*next(places))


def bare_on_current_stream(length: int) -> Callable[..., Any]:
    """The kernel as a CUDA graph can capture it: on the stream that captures."""
    return lambda x, y, w: kernels.tuple_grid(x, y, w if length > 1 else y, length)


@dataclass(frozen=True)
class Row:
    """One measured line. `ratio` is to the row named `against`, with its bound where one must hold."""

    graph: str
    name: str
    stats: TimingStats
    against: str = ""
    ratio: float | None = None
    bound: float | None = None

    @property
    def held(self) -> bool:
        return self.bound is None or self.ratio is None or self.ratio <= self.bound


def timed(
    found: dict[str, Callable[..., Any]], inputs: list[torch.Tensor], args: Any
) -> dict[str, list[int]]:
    """Nanoseconds of each arm, all in turns."""
    plan = Plan(args.trials, args.warmup, order_seed=1, seed=1024, device=args.device, budget_s=120.0)
    times = time_block(list(found.values()), [FreshInputs(inputs)] * len(found), plan)
    return dict(zip(found, times, strict=True))


def chain_rows(length: int, args: Any) -> Iterator[Row]:
    """All compilers on one graph; the unrewritten direct graph may cost at most 1.01 of eager."""
    inputs = [torch.randn(SHAPE, device=args.device) for _ in NAMES]
    with torch.no_grad():
        found = arms(length, inputs, args.device)
        expected = found["eager"](*inputs)[0]
        for name, call in found.items():
            result = call(*inputs)
            result = result[0] if isinstance(result, (tuple, list)) else result
            if name != "empty call" and not torch.allclose(result, expected, rtol=1e-4, atol=1e-5):
                raise SystemExit(f"{name}, {length} operators: wrong result")
        times = timed(found, inputs, args)
    stats = {name: timing_stats(values) for name, values in times.items()}
    graph = f"{length} operators"
    for name in found:
        if name == UNCHANGED:
            against: Comparison = compare(times["eager"], times[name], seed=1)
            yield Row(graph, name, stats[name], "eager, upper end", 1 / against.low, MOST_OVER_EAGER)
        else:
            floor = REPLAYED if name in (GRAPH, COPYING) else FLOOR
            ratio = compare(times[name], times[floor], seed=1).speedup  # median of the rounds' ratios
            yield Row(graph, name, stats[name], floor, ratio, MOST_OVER_REPLAY if name == GRAPH else None)


def idiom_rows(args: Any, length: int = 3) -> Iterator[Row]:
    """One fused kernel, launched in every way: at most 1.15 of the bare loop."""
    inputs = [torch.randn(SHAPE, device=args.device) for _ in NAMES]
    with torch.no_grad():
        found = {FLOOR: bare_loop(length, inputs, args.device)}
        written = {f"as written: {function.__name__}": function for function in kernels.IDIOMS[args.device]}
        for name, function in written.items():
            found[name] = lambda x, y, w, function=function: function(x, y, w, length)
            planned = compiled(
                "pass_mgr_direct", length, inputs, [fusing_pass(length, function)], args.device
            )
            found[name.replace("as written", "planned")] = planned
        times = timed(found, inputs, args)
    stats = {name: timing_stats(values) for name, values in times.items()}
    for name, value in stats.items():
        ratio = compare(times[name], times[FLOOR], seed=1).speedup
        bound = MOST_OVER_FLOOR if name.startswith("planned") else None
        yield Row("one fused kernel", name, value, FLOOR, ratio, bound)


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| graph | what | median | IQR | ratio | to | must hold |", "|---|---|---:|---:|---:|---|---|"]
    for row in rows:
        quartiles = f"{row.stats.q25_us:.1f} to {row.stats.q75_us:.1f}"
        ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
        bound = "" if row.bound is None else f"at most {row.bound}: {'yes' if row.held else 'NO'}"
        median = f"{row.stats.median_us:.1f}"
        cells = (row.graph, row.name, median, quartiles, ratio, row.against, bound)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(rows: list[Row]) -> str:
    """The rows that something must hold for, worst first within each kind, and the copying beside them."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if row.bound is not None or row.name == COPYING:
            kinds.setdefault(row.name if row.graph != "one fused kernel" else row.graph, []).append(row)
    lines = ["| what | to | worst ratio | all | must hold |", "|---|---|---:|---|---|"]
    for kind, found in kinds.items():
        ratios = [row.ratio for row in found if row.ratio is not None]
        bound = found[0].bound
        held = "" if bound is None else f"at most {bound}: {'yes' if max(ratios) <= bound else 'NO'}"
        every = ", ".join(f"{row.ratio:.3f}" for row in found)
        lines.append(f"| {kind} | {found[0].against} | {max(ratios):.3f} | {every} | {held} |")
    return "\n".join(lines)


def environment(device: str) -> str:
    """The machine and the versions, in one line."""
    import triton

    card = torch.cuda.get_device_name() if device == "cuda" else (platform.processor() or platform.machine())
    return (
        f"{card}, torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--warmup", type=int, default=50)
    parser.add_argument("--lengths", type=int, nargs="*", default=list(LENGTHS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true", help="exit 1 if a bound does not hold")
    args = parser.parse_args()
    start = time.monotonic()
    rows: list[Row] = []
    for length in args.lengths:
        rows += progress(chain_rows(length, args), f"{length} operators", start)
    rows += progress(idiom_rows(args), "one fused kernel", start)
    shown = " ".join(["python benchmarks/host_overhead.py", *sys.argv[1:]])
    text = (
        f"`{shown}` on {environment(args.device)}\n\nMicroseconds of wall clock, synchronised; "
        f"{args.trials} trials in turns; {time.monotonic() - start:.0f} s in all.\n\n"
        f"{summary(rows)}\n\n{table(rows)}"
    )
    print(text)
    if args.out:
        args.out.write_text(f"# Host overhead\n\n{text}\n")
    return 0 if all(row.held for row in rows) or not args.check else 1


def progress(rows: Iterator[Row], what: str, start: float) -> list[Row]:
    """All rows; says on stderr what is being measured."""
    print(f"{time.monotonic() - start:5.0f} s  {what}", file=sys.stderr, flush=True)
    return list(rows)


if __name__ == "__main__":
    sys.exit(main())
