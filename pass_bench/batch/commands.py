"""`passbench batch`: evaluate lists of samples."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from pass_bench.batch.executor import default_jobs
from pass_bench.batch.progress import BatchProgress
from pass_bench.batch.run import RunCounts, run_tasks
from pass_bench.batch.tasks import graph_tasks, parse_shard, sample_tasks
from pass_bench.compilers import compiler_named
from pass_bench.errors import BadInput
from pass_bench.results.records import EvalSettings
from pass_bench.results.store import Retry, Store
from pass_bench.worker.commands import parse_regimes


@click.command("batch")
@click.argument("targets", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--compiler", default="pass_mgr_direct", show_default=True)
@click.option(
    "--baseline", multiple=True, help="Also measure this compiler, such as inductor; may be repeated."
)
@click.option(
    "--passes", type=click.Path(path_type=Path), help="A tree of pass_dirs that mirrors the samples."
)
@click.option("--root", type=click.Path(path_type=Path), help="Where listed sample paths start.")
@click.option("--devices", default="auto", show_default=True, help="auto, cpu, or GPU numbers such as 0,1.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Graphs in work per device [default: half the cores, 2 to 8, on a GPU; 1 on a CPU]",
)
@click.option(
    "--hush/--no-hush",
    default=True,
    show_default=True,
    help="Whether the processes of other graphs stand still while one is timed.",
)
@click.option("--executor", type=click.Choice(["local", "ray"]), default="local", show_default=True)
@click.option("--ray-address", help="The Ray cluster to join [default: RAY_ADDRESS, else a local one]")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many samples.")
@click.option("--shard", default="1/1", show_default=True, help="i/n: the i-th of n parts of the samples.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds per graph."
)
@click.option("--warmup", type=click.IntRange(0, 10_000), default=25, show_default=True)
@click.option("--trials", type=click.IntRange(3, 100_000), default=100, show_default=True)
@click.option("--regimes", default="recorded,random", show_default=True)
@click.option("--sandbox", type=click.Choice(["require", "auto", "off"]), default="auto", show_default=True)
@click.option("--retry", multiple=True, type=click.Choice(["infra", "failed"]), help="Measure these again.")
@click.option(
    "--submission", default="", help="A name for these passes in reports [default: of --passes or LIST]"
)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder [default: results/<submission>]")
def batch_command(targets: tuple[Path, ...], **options: Any) -> int:
    """Evaluate lists of samples (.txt, .csv), sample directories, or folders of them.

    Results are appended to OUT/results.jsonl as they come; a second run skips what is there. Ctrl-C finishes
    the graphs that run and stops; twice ends at once.
    """
    settings = _settings(options)
    compilers = list(dict.fromkeys([options["compiler"], *options["baseline"]]))
    uses = [(name, compiler_named(name).uses_passes) for name in compilers]
    samples = sample_tasks(targets, options["root"], options["passes"])
    tasks = graph_tasks(samples, uses, options["limit"], parse_shard(options["shard"]))
    submission = options["submission"] or (options["passes"] or targets[0]).absolute().stem
    out = options["out"] or Path("results") / submission
    console = Console(stderr=True)
    without = {task.owner.name: task.owner.pass_dir is None for task in tasks}
    missing = sum(without.values())
    if missing and any(uses_passes for _, uses_passes in uses):
        console.print(
            f"{missing} of {len(without)} samples have no passes: they count as misses", highlight=False
        )
    with (
        Store(out / "results.jsonl", say=lambda line: console.print(line, highlight=False)) as store,
        stop_on_interrupt(console) as stopping,
        make_executor(settings, compilers, options) as executor,
        BatchProgress(console, options["compiler"]) as progress,
    ):
        counts = run_tasks(
            executor,
            tasks,
            settings,
            store,
            submission=submission,
            retry=tuple(_retry(options["retry"])),
            stop=stopping,
            on_start=progress.begin,
            on_measured=progress.add,
        )
    return conclude(counts, out)


def conclude(counts: RunCounts, out: Path) -> int:
    """Say what was done; 3 if a stop left graphs unmeasured."""
    click.echo(
        f"{counts.measured} measured, {counts.skipped} were there, {counts.left} left: {out}/results.jsonl"
    )
    if counts.left:
        click.echo("run the same command again to go on", err=True)
        return 3
    return 0


def _retry(names: Sequence[str]) -> Iterator[Retry]:
    for name in names:
        yield "infra" if name == "infra" else "failed"


def _settings(options: dict[str, Any]) -> EvalSettings:
    compiler_named(options["compiler"])
    return EvalSettings(
        compiler=options["compiler"],
        device="cpu" if options["devices"] == "cpu" else "auto" if options["devices"] == "auto" else "cuda",
        warmup=options["warmup"],
        trials=options["trials"],
        regimes=parse_regimes(options["regimes"]),
        timeout_s=options["timeout"],
        sandbox=options["sandbox"],
    )


def make_executor(settings: EvalSettings, compilers: Sequence[str], options: dict[str, Any]) -> Any:
    """Return the executor asked for, as a context manager. Raises BadInput."""
    devices = parse_devices(options["devices"])
    if options["executor"] == "ray":
        from pass_bench.batch.ray_executor import RayExecutor

        if devices not in (["auto"], ["cpu"]):
            raise BadInput(
                f"--devices {options['devices']} with --executor ray, which gives out the GPUs itself",
                expected="auto or cpu",
            )
        return RayExecutor(
            settings, tuple(compilers), options["ray_address"], options["jobs"], hush=options["hush"]
        )
    from pass_bench.batch.local import LocalExecutor
    from pass_bench.worker.evaluate import cuda_may_exist

    on_gpu = devices != ["cpu"] and cuda_may_exist()
    jobs = options["jobs"] or default_jobs(len(devices) if on_gpu else 0)
    return LocalExecutor(settings, tuple(compilers), devices, jobs, hush=options["hush"])


def parse_devices(text: str) -> list[str]:
    """Return the devices of "cpu", "auto" or "0,1"; raises BadInput."""
    if text in ("cpu", "auto"):
        return [text]
    numbers = [part.strip() for part in text.split(",")]
    if all(number.isdigit() for number in numbers) and len(set(numbers)) == len(numbers):
        return numbers
    raise BadInput(f"--devices {text}", expected="auto, cpu, or different GPU numbers such as 0,1")


@contextmanager
def stop_on_interrupt(console: Console) -> Iterator[Callable[[], bool]]:
    """Turn the first Ctrl-C (or SIGTERM) into a wish to stop; the second one ends at once."""
    asked = 0

    def handle(number: int, frame: object) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            sys.stderr.write("ended at once\n")
            os._exit(130)
        console.print("finishing the graphs that run; Ctrl-C again ends at once", highlight=False)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked > 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
