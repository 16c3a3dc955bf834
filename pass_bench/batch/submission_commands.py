"""`passbench pack` and `passbench verify`: what goes to a leaderboard, and whether it is true."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pass_bench.batch.archive import Unpacked, pack, unpack
from pass_bench.batch.claims import Claim, choose, hold, mean_ratio
from pass_bench.batch.commands import parse_devices
from pass_bench.batch.executor import Measured, default_jobs
from pass_bench.batch.local import LocalExecutor
from pass_bench.batch.tasks import GraphTask, graph_tasks, sample_tasks
from pass_bench.compilers import compiler_named
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import EvalSettings, GraphResult
from pass_bench.results.store import read_results, read_store


@click.command("pack")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--passes", type=click.Path(path_type=Path), help="The tree of pass_dirs that was evaluated.")
@click.option(
    "--root", type=click.Path(path_type=Path), default=Path(), help="Where the samples' paths start."
)
@click.option("--submission", default="", help="Its name [default: the one in the store]")
@click.option("--out", type=click.Path(path_type=Path), help="[default: <submission>.tar.xz]")
def pack_command(store: Path, passes: Path | None, root: Path, submission: str, out: Path | None) -> None:
    """Make a submission archive of passes, results and environment."""
    names = {entry.stored.submission for entry in read_store(store).entries}
    name = submission or (names.pop() if len(names) == 1 else "")
    if not name:
        raise BadInput("holds several submissions", path=store, expected="--submission NAME")
    target = out or Path(f"{name}.tar.xz")
    manifest = pack(store, passes, root, name, target)
    click.echo(f"{target}: {name}, {len(manifest.samples)} samples, {len(manifest.files)} files")


@click.command("verify")
@click.argument("archive", type=click.Path(path_type=Path))
@click.argument("targets", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--share", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True)
@click.option("--seed", type=int, help="Which part is drawn [default: drawn anew]")
@click.option("--root", type=click.Path(path_type=Path), help="Where listed sample paths start.")
@click.option("--devices", default="auto", show_default=True)
def verify_command(
    archive: Path,
    targets: tuple[Path, ...],
    share: float,
    seed: int | None,
    root: Path | None,
    devices: str,
) -> None:
    """Measure a random part of a submission again and say whether its claims hold within the intervals.

    TARGETS are the lists or folders of the samples that it was measured on.
    """
    seed = secrets.randbelow(2**31) if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="passnet-verify-") as folder:
        unpacked = unpack(archive, Path(folder))
        chosen = choose(read_results(unpacked.store), share, seed)
        if not chosen:
            raise BadInput("claims no scored graph", path=archive)
        claims = _measure(unpacked, chosen, targets, root, devices)
    print_claims(claims, unpacked.manifest.submission, seed)


def _measure(
    unpacked: Unpacked, chosen: list[GraphResult], targets: tuple[Path, ...], root: Path | None, devices: str
) -> list[Claim]:
    places = parse_devices(devices)
    compilers = tuple(dict.fromkeys(result.compiler for result in chosen))
    uses = [(name, compiler_named(name).uses_passes) for name in compilers]
    wanted = {(result.sample, result.index, result.compiler): result for result in chosen}
    tasks = [
        task
        for task in graph_tasks(sample_tasks(targets, root, unpacked.passes), uses)
        if (task.owner.name, task.index, task.compiler) in wanted
    ]
    if len(tasks) < len(wanted):
        raise BadInput(
            f"{len(wanted) - len(tasks)} of {len(wanted)} claimed graphs are not among the samples given"
        )
    device = chosen[0].device if devices == "auto" else ("cpu" if places == ["cpu"] else "cuda")
    settings = EvalSettings(compiler=compilers[0], device="cpu" if device == "cpu" else "cuda")
    claims: list[Claim] = []

    def keep(item: Measured) -> None:
        task: GraphTask = item.task
        claims.append(Claim(wanted[task.owner.name, task.index, task.compiler], item.result))

    used = ["cpu"] if device == "cpu" else places
    jobs = default_jobs(0 if device == "cpu" else len(used))
    with LocalExecutor(settings, compilers, used, jobs) as executor:
        executor.run(tasks, keep, lambda: False)
    return claims


def print_claims(claims: list[Claim], submission: str, seed: int) -> None:
    """Print what was found. Raises HarnessFailure if all was left out."""
    table = Table(box=None, pad_edge=False)
    for heading in ("graph", "compiler", "claimed", "measured", "finding"):
        table.add_column(heading, overflow="fold")
    for claim in claims:
        table.add_row(
            f"{claim.claimed.sample} {claim.claimed.graph.rsplit('/', 1)[-1]}",
            claim.claimed.compiler,
            _words(claim.claimed),
            _words(claim.measured),
            claim.finding,
        )
    Console().print(table)
    machines = {claim.claimed.device_name for claim in claims} | {
        claim.measured.device_name for claim in claims
    }
    if len(machines) > 1:
        click.echo(
            f"measured on another device than claimed ({', '.join(sorted(machines))}): speeds may differ"
        )
    judged = [claim for claim in claims if not claim.left_out]
    left_out = len(claims) - len(judged)
    if left_out:
        click.echo(f"{left_out} of {len(claims)} graphs are left out: they could not be measured here")
    if not judged:
        first = claims[0].measured
        raise HarnessFailure(f"no claim could be measured again: {first.reason or first.verdict.value}")
    ratio = mean_ratio(judged)
    words = "" if ratio is None else f", measured / claimed speedup {ratio:.3f}"
    click.echo(
        f"{submission}: the claims {'hold' if hold(judged) else 'do NOT hold'} on {len(judged)} graphs"
    )
    click.echo(f"seed {seed}{words}")


def _words(result: GraphResult) -> str:
    if result.e2e is None or result.interpreted:
        return result.verdict.value
    return f"{result.verdict.value} {result.e2e.speedup:.2f}x [{result.e2e.low:.2f}, {result.e2e.high:.2f}]"
