"""`passbench check` and `passbench selftest`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import click

import pass_bench
from pass_bench.errors import BadInput, HarnessFailure

SUITE = Path(pass_bench.__file__).resolve().parent.parent / "test" / "redteam"
EXIT_BROKEN = 2
GPU_JOBS = 8
GPU_SECONDS = 140.0


@click.command("check")
@click.argument("sample", type=click.Path(path_type=Path))
@click.option(
    "--pass-dir", type=click.Path(path_type=Path), help="Check this folder instead of SAMPLE/pass_dir."
)
@click.option(
    "--device", default="any", show_default=True, help="What DEVICES is held against: any, cpu, cuda."
)
@click.option("--no-match", is_flag=True, help="Only read and check sources; nothing of a pass is run.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check_command(sample: Path, pass_dir: Path | None, device: str, no_match: bool, as_json: bool) -> int:
    """Look at the passes of SAMPLE before an evaluation, without a GPU.

    Manifest, the three functions, source rules, and where each pattern matches in each graph. Exit code 0: an
    evaluation would run them; 2: it would not.
    """
    from pass_bench.guard.preflight import check_sample

    report = check_sample(sample, pass_dir, device=device, match=not no_match)
    click.echo(report.model_dump_json(indent=2) if as_json else report.text())
    return 0 if report.ok else EXIT_BROKEN


@click.command("selftest")
@click.option(
    "--suite", type=click.Path(path_type=Path), default=None, help="Folder with hostile/ and honest/."
)
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--compiler", "compilers", multiple=True, help="Evaluate under this compiler; may be repeated.")
@click.option("--only", multiple=True, help="Name of a case; may be repeated.")
@click.option("--every", type=int, default=1, help="Evaluate every N-th case only.")
@click.option("--jobs", type=click.IntRange(1), help="How many cases to prepare at once (CPU: 1, GPU: 8).")
@click.option("--seconds", type=float, help="Begin no further case after this long (GPU: 140).")
@click.option("--faults/--no-faults", default=None, help="Crashes, hangs and floods too (on a GPU: yes).")
@click.option(
    "--markdown",
    type=click.Path(exists=True, dir_okay=False, writable=True, path_type=Path),
    help="Put the table into this file.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write a file with machine, tables and faults.")
def selftest_command(
    suite: Path | None,
    device: Literal["cpu", "cuda"],
    compilers: tuple[str, ...],
    only: tuple[str, ...],
    every: int,
    jobs: int | None,
    seconds: float | None,
    faults: bool | None,
    markdown: Path | None,
    out: Path | None,
) -> int:
    """Evaluate hostile passes and honest look-alikes, and print what became of each.

    Exit code 0: every one got its verdict; 3: some did not.
    """
    from pass_bench.guard.redteam import table
    from pass_bench.guard.redteam.cases import read_cases
    from pass_bench.guard.redteam.runner import COMPILERS
    from pass_bench.guard.redteam.session import Session

    folder = suite or SUITE
    if not folder.is_dir():
        raise BadInput("no such suite", path=folder, expected="a checkout with test/redteam, or --suite")
    cases = [case for case in read_cases(folder) if not only or case.name in only][::every]
    if not cases:
        raise BadInput(f"no case called {', '.join(only)}", path=folder)
    on_gpu = device == "cuda"
    jobs = jobs or (max(1, min(GPU_JOBS, (os.cpu_count() or 1) // 2)) if on_gpu else 1)
    session = Session(device, jobs, seconds or (GPU_SECONDS if on_gpu else None), out, click.echo)
    session.run(cases, compilers or COMPILERS, on_gpu if faults is None else faults)
    if markdown is not None:
        put_table(markdown, table.markdown(session.outcomes), table.BEGIN, table.END)
    if session.unexpected:
        raise HarnessFailure("some cases did not get their verdict")
    return 0


def put_table(file: Path, text: str, begin: str, end: str) -> None:
    """Replace what stands between two marks; raises BadInput where they are missing."""
    before, found, rest = file.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise BadInput("has no place for the table", path=file, expected=f"{begin} and {end}")
    file.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")
