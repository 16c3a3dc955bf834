"""`passbench dataset`: one command per stage."""

from __future__ import annotations

from pathlib import Path

import click

from pass_bench.dataset.stages import timed

WORK = Path(".cache/dataset")
SHARDS = Path("datasets/passnet_subgraphs")

_folder = click.Path(path_type=Path, file_okay=False)
_work = click.option("--work", type=_folder, default=WORK, show_default=True, help="Where records are kept.")


@click.group("dataset")
def dataset_command() -> None:
    """Extract, decompose, vary, verify, group and publish graphs; unpack and import samples."""


@dataset_command.command("extract")
@click.argument("libraries", nargs=-1, required=True)
@_work
@click.option("--jobs", default=1, show_default=True, help="Entries at a time, a process each.")
@click.option(
    "--ranks", default="0-9", show_default=True, help="0: one per class, then heads, further sizes."
)
@click.option("--limit", type=int, help="At most this many entries.")
@click.option("--seconds", default=400, show_default=True, help="Wall time for one entry.")
@click.option("--memory", default=12, show_default=True, help="GiB of address space for one entry.")
def extract(
    libraries: tuple[str, ...],
    work: Path,
    jobs: int,
    ranks: str,
    limit: int | None,
    seconds: int,
    memory: int,
) -> None:
    """Record the architectures of LIBRARIES (transformers, timm, ...); goes on where it stopped."""
    from pass_bench.dataset.zoo.harvest import Limits, catalog, harvest, with_fixed_hashes
    from pass_bench.errors import BadInput

    low, _, high = ranks.partition("-")
    if not (low.isdigit() and (high or low).isdigit()):
        raise BadInput(f"--ranks {ranks}", expected="a range such as 0-3")
    with_fixed_hashes()
    entries = [e for e in catalog(libraries) if int(low) <= e.rank <= int(high or low)][:limit]
    limits = Limits(seconds=seconds, memory_gib=memory)
    with timed(work, "extract") as done:
        done.append(harvest(entries, work, jobs=jobs, limits=limits, report=click.echo))


@dataset_command.command("decompose")
@_work
@click.option("--seconds", type=float, help="Stop lowering after this long.")
def decompose(work: Path, seconds: float | None) -> None:
    """Lower models to find which statements a compiler fuses."""
    from pass_bench.dataset.pipeline import decompose as run

    with timed(work, "decompose"):
        lowered = run(work, seconds=seconds, report=click.echo)
    click.echo(f"{len(lowered)} models lowered")


@dataset_command.command("vary")
@_work
@click.option("--instances", default=3, show_default=True, help="Different shapes per skeleton.")
@click.option("--dims", default=2, show_default=True, help="Further sizes of the first of them.")
def vary(work: Path, instances: int, dims: int) -> None:
    """Plan all graphs: parts of all models in every type and several sizes, none twice."""
    from pass_bench.dataset.pipeline import vary as run
    from pass_bench.dataset.plan import Budget

    with timed(work, "vary") as done:
        done.append(run(work, Budget(instances=instances, dims=dims), report=click.echo))


@dataset_command.command("verify")
@_work
@click.option("--eval-samples", default=200, show_default=True, help="Evaluation samples per category.")
def verify(work: Path, eval_samples: int) -> None:
    """Run every planned graph; count why graphs are dropped. Goes on where it stopped."""
    from pass_bench.dataset.pipeline import check

    with timed(work, "verify") as done:
        reasons = check(work, count=eval_samples, report=click.echo, done=done)
    for reason, count in reasons.most_common():
        click.echo(f"{count:7d}  {reason}")


@dataset_command.command("group")
@_work
@click.option("--eval-samples", default=200, show_default=True, help="Evaluation samples per category.")
def group(work: Path, eval_samples: int) -> None:
    """Group verified graphs into samples and show the split."""
    from pass_bench.dataset.pipeline import chosen

    parts = chosen(work, count=eval_samples)
    for use, groups in (("eval", parts.evaluation), ("train", parts.train)):
        for category, members in sorted(groups.items()):
            graphs = sum(len(one.graphs) for one in members)
            click.echo(f"{use:6s} {category:20s} {len(members):6d} samples {graphs:7d} graphs")


@dataset_command.command("publish")
@_work
@click.option("--shards", type=_folder, default=SHARDS, show_default=True)
@click.option("--lists", type=_folder, default=Path(), show_default=True, help="Parent of the list folders.")
@click.option("--eval-samples", default=200, show_default=True)
def publish(work: Path, shards: Path, lists: Path, eval_samples: int) -> None:
    """Write shards, lists and the datasheet."""
    from pass_bench.dataset.datasheet import write_datasheet
    from pass_bench.dataset.pipeline import publish as run

    with timed(work, "publish") as done:
        done.append(run(work, shards, lists, count=eval_samples, report=click.echo))
    write_datasheet(work, shards)


@dataset_command.command("status")
@_work
@click.option("--out", type=click.Path(path_type=Path), help="Write the page there instead.")
@click.option("--eval-samples", default=200, show_default=True)
def show_status(work: Path, out: Path | None, eval_samples: int) -> None:
    """Say how far every stage is: what was tried, what came of it, why the rest failed, how long it took."""
    from pass_bench.dataset.status import status

    text = status(work, eval_samples)
    if out is None:
        click.echo(text)
    else:
        out.write_text(text, encoding="utf-8")
        click.echo(str(out))


@dataset_command.command("unpack")
@click.option("--list", "lists", type=click.Path(path_type=Path), multiple=True, help="A sample list.")
@click.option("--shards", type=_folder, default=SHARDS, show_default=True)
@click.option("--project", type=_folder, default=Path(), show_default=True)
@click.argument("samples", nargs=-1)
def unpack(lists: tuple[Path, ...], shards: Path, project: Path, samples: tuple[str, ...]) -> None:
    """Write sample directories: those of lists, those named, or all."""
    from pass_bench.dataset.unpack import unpack as run
    from pass_bench.dataset.unpack import wanted_by

    wanted = [*wanted_by(lists), *samples]
    count = run(shards, project, wanted if lists or samples else None)
    click.echo(f"{count} samples written below {project / 'samples'}")


@dataset_command.command("import")
@click.argument("folder", type=_folder)
@click.option("--project", type=_folder, default=Path(), show_default=True)
def import_folder(folder: Path, project: Path) -> None:
    """Take over a local copy of the published dataset's layout."""
    from pass_bench.dataset.unpack import import_published

    click.echo(f"{import_published(folder, project)} samples imported")


@dataset_command.command("pull")
@click.argument("name")
@click.option("--out", type=_folder, default=Path(".cache/pulled"), show_default=True)
@click.option("--revision")
def pull(name: str, out: Path, revision: str | None) -> None:
    """Download dataset NAME from the Hugging Face hub, to be imported or unpacked."""
    from pass_bench.dataset.unpack import pull as run

    click.echo(str(run(name, out, revision)))


@dataset_command.command("materialize")
@click.argument("sample", type=_folder)
@click.option("--out", type=_folder, help="Make a copy there instead.")
def materialize(sample: Path, out: Path | None) -> None:
    """Turn the links of SAMPLE into copies."""
    from pass_bench.dataset.unpack import materialize as run

    click.echo(str(run(sample, out)))


@dataset_command.command("stats")
@click.option("--shards", type=_folder, default=SHARDS, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("docs/dataset.md"), show_default=True)
def stats(shards: Path, out: Path) -> None:
    """Write the statistics page with its plots."""
    from pass_bench.dataset.page import write_page

    write_page(shards, out)
    click.echo(str(out))
