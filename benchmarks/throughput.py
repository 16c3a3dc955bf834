"""Graphs per hour of `passbench batch`, and where the time of a graph goes.

    python benchmarks/throughput.py [--device cuda] [--parts probe,eager,passes,inductor] [--out FILE.md]
    python benchmarks/throughput.py --devices 0,1         # one GPU, then all of these, as many graphs on each

`eager` and `inductor` run that many graphs of the evaluation lists (benchmarks/eval_graphs.py) under the
compilers `nope` and `inductor`, `passes` the example samples with their passes under all guards; each with
all input regimes, as one `passbench batch` from start to end. A harness that starts a Python process per
graph needs 11 s a graph for eager and 25 s for inductor on an H100; the exit code says whether `eager` and
`passes` are 12 times and `inductor` is 6 times as fast, or two GPUs 1.85 times as fast as one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


from eval_graphs import EXAMPLES, sample_list

from pass_bench.results.records import EvalSettings, GraphResult, PhaseTimes
from pass_bench.results.store import read_store
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.messages import DrawRequest, ReferenceJob, ReferenceReply, ReferenceRequest

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = {"eager": "nope", "passes": "pass_mgr_direct", "inductor": "inductor"}
ELSEWHERE_S = {"eager": 11.0, "passes": 11.0, "inductor": 25.0}
NEEDED = {"eager": 12.0, "passes": 12.0, "inductor": 6.0}
DEVICES_NEEDED = 1.85


@dataclass(frozen=True)
class Run:
    """One `passbench batch`: seconds from its start to its end, from its first graph to its end, and from its
    last graph's end to its own."""

    name: str
    wall_s: float
    graphs_s: float
    end_s: float
    results: tuple[GraphResult, ...]
    device: str

    @property
    def per_graph_s(self) -> float:
        """Seconds per graph, the start of the workers included."""
        return self.wall_s / max(1, len(self.results))


def batch(name: str, devices: str, options: argparse.Namespace) -> Run:
    """Run one part; one that does not end in time is interrupted, and what it has measured counts."""
    folder = Path(tempfile.mkdtemp(prefix="passnet-throughput-"))
    compiler = COMPILERS[name]
    command = [sys.executable, "-m", "pass_bench", "batch", "--compiler", compiler, "--devices", devices]
    if name == "passes":
        command += [str(EXAMPLES)]
    else:
        path, root = sample_list(options.graphs * (devices.count(",") + 1))
        command += [str(path), "--root", str(root)]
    command += ["--regimes", "recorded,random,special", "--out", str(folder)]
    command += ["--timeout", "60", *(["--jobs", str(options.jobs)] if options.jobs else [])]
    command += [] if options.hush else ["--no-hush"]
    print(f"{name} on {devices}: {' '.join(command[1:])}", flush=True)
    started: list[float] = []
    said = [0.0]
    start = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said[0] = time.monotonic()
            if " graphs" in line and not started:
                started.append(said[0])
            print(f"  {line.rstrip()}", flush=True)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        process.wait(options.limit_s)
    except subprocess.TimeoutExpired:
        print(f"  cut after {options.limit_s:g} s", flush=True)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    end = time.monotonic()
    thread.join(2)
    try:
        contents = read_store(folder / "results.jsonl")
        device = next((one.device_name for one in contents.environments.values()), "")
        graphs_s = end - (started or [start])[0]
        run = Run(name, end - start, graphs_s, end - (said[0] or start), contents.results, device)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    complain(run)
    return run


def complain(run: Run) -> None:
    """Print the results that are not as one would expect, so that a person can look into them."""
    for result in run.results:
        name = Path(result.graph).name
        if result.verdict.value != "correct":
            print(f"  {name}: {result.verdict.value}: {result.reason[:200]}", flush=True)
        for warning in result.warnings:
            if not warning.startswith("no random inputs"):
                print(f"  {name}: warning: {warning[:160]}", flush=True)


def probe(device: str) -> list[str]:
    """Time fresh reference workers from their fork to eager's first outputs, alone and several at once."""
    from concurrent.futures import ThreadPoolExecutor

    graph = sorted((ROOT / "graphs").rglob("*_float32_batch1/model.py"))[0].parent
    settings = EvalSettings(compiler="nope", device="cpu" if device == "cpu" else "cuda")
    lines = []
    with Evaluator(settings, None if device in ("cpu", "cuda") else device) as evaluator:
        zygote = evaluator._zygote
        assert zygote is not None

        def first_draw() -> float:
            start = time.monotonic()
            with zygote.fork("reference") as child:
                job = ReferenceJob(graph_path=str(graph), device=evaluator.device, seed=1024, compat=False)
                for request in (job, DrawRequest(regime="recorded", seed=123)):
                    child.send(ReferenceRequest(request=request))
                    child.receive(ReferenceReply, time.monotonic() + 60)
                return time.monotonic() - start

        for count in (1, 1, 2, 4, 8):
            start = time.monotonic()
            with ThreadPoolExecutor(count) as pool:
                took = list(pool.map(lambda _: first_draw(), range(count)))
            whole = time.monotonic() - start
            lines.append(f"{count} at once: {median(took):.2f} s each, {whole / count:.2f} s per worker")
            print(f"  {lines[-1]}", flush=True)
    return lines


def phases(results: tuple[GraphResult, ...]) -> str:
    """Return the mean seconds of each phase."""
    fields = [name for name in PhaseTimes.model_fields if name != "total_s"]
    return " | ".join(f"{mean(getattr(result.phases, name) for result in results):.2f}" for name in fields)


def report(runs: list[Run], probed: list[str], options: argparse.Namespace) -> str:
    """Return the tables in Markdown."""
    lines = [f"On {runs[0].device if runs else '?'} with {len(os.sched_getaffinity(0))} cores.", ""]
    lines += [
        "| part | graphs | wall s | start s | end s | s per graph | without start | graphs/h | times as fast "
        "| needed | |",
        f"|---|{'---:|' * 9}---|",
    ]
    for run in runs:
        kind = run.name.split()[0]
        count = len(run.results)
        faster = ELSEWHERE_S[kind] / run.per_graph_s
        verdicts = Counter(result.verdict.value for result in run.results)
        lines.append(
            f"| {run.name} | {count} | {run.wall_s:.1f} | {run.wall_s - run.graphs_s:.1f} | {run.end_s:.1f} "
            f"| {run.per_graph_s:.2f} "
            f"| {run.graphs_s / max(1, count):.2f} | {3600 / run.per_graph_s:.0f} | {faster:.1f} "
            f"| {NEEDED[kind]:g} | {', '.join(f'{n} {name}' for name, n in verdicts.most_common())} |"
        )
    names = [name.removesuffix("_s") for name in PhaseTimes.model_fields if name != "total_s"]
    lines += [
        "",
        "Mean seconds of a graph in each phase. One graph at a time holds the device in `time` (`trials` is",
        "a part of it); everything else overlaps with other graphs.",
        "",
        f"| part | {' | '.join(names)} | share of the time that the device is held | noisy |",
        f"|---|{'---:|' * (len(names) + 2)}",
    ]
    for run in runs:
        if run.results:
            devices = run.name.count(",") + 1
            held = sum(result.phases.time_s for result in run.results) / run.graphs_s / devices
            noisy = sum(result.e2e is not None and result.e2e.noisy for result in run.results)
            lines.append(f"| {run.name} | {phases(run.results)} | {100 * held:.0f} % | {noisy} |")
    if probed:
        lines += ["", "From the fork of a worker to eager's first outputs: " + "; ".join(probed) + "."]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="0", help="a GPU's number, or cpu")
    parser.add_argument("--devices", help="compare one of these GPUs with all of them")
    parser.add_argument("--parts", default="probe,eager,passes,inductor")
    parser.add_argument("--graphs", type=int, default=50, help="at least so many")
    parser.add_argument("--jobs", type=int, help="graphs in work per device")
    parser.add_argument("--no-hush", dest="hush", action="store_false", help="other graphs go on meanwhile")
    parser.add_argument("--limit-s", type=float, default=120.0, help="seconds for each part")
    parser.add_argument("--out", type=Path, help="write the tables here as well")
    options = parser.parse_args()
    parts = options.parts.split(",")
    runs: list[Run] = []
    probed: list[str] = []
    verdict = 0
    try:
        if options.devices:
            first = options.devices.split(",")[0]
            runs = [batch("eager", where, options) for where in (first, options.devices)]
            runs = [
                replace(r, name=f"eager on {where}")
                for where, r in zip((first, options.devices), runs, strict=True)
            ]
            one, all_of_them = (run.graphs_s / max(1, len(run.results)) for run in runs)
            print(f"{options.devices} against {first}: {one / all_of_them:.2f} times the graphs per hour")
            verdict = int(one / all_of_them < DEVICES_NEEDED)
        else:
            for part in parts:
                if part == "probe":
                    print("fresh workers", flush=True)
                    probed = probe(options.device)
                else:
                    runs.append(batch(part, options.device, options))
            verdict = int(any(ELSEWHERE_S[r.name] / r.per_graph_s < NEEDED[r.name] for r in runs))
    finally:
        text = report(runs, probed, options)
        print(text, flush=True)
        if options.out is not None:
            arguments = " ".join(argument for argument in sys.argv[1:])
            command = f"`python benchmarks/throughput.py {arguments}`"
            options.out.write_text(f"# Graphs per hour\n\n{command}\n\n{text}\n")
    return verdict


if __name__ == "__main__":
    sys.exit(main())
