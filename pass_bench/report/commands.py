"""`passbench report` and `passbench merge`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from pass_bench.errors import BadInput
from pass_bench.report.leaderboard import standings
from pass_bench.report.load import Submission, load_submissions
from pass_bench.results.store import StoredResult, merge_stores
from pass_bench.score.aggregate import chosen_weights
from pass_bench.score.es import ScoreSettings

_SUFFIX = {"terminal": "", "markdown": ".md", "csv": ".csv", "html": ".html"}


@click.command(name="report")
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(_SUFFIX)),
    help="What to make [default: by the suffix of --out, else terminal]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Where it goes [default: the terminal].")
@click.option("--title", default="PassNet report", show_default=True)
@click.option("--root", "roots", multiple=True, type=click.Path(path_type=Path), help="Where samples lie.")
@click.option("--penalty", default=0.0, show_default=True, help="p: a slower graph counts s^(p+1).")
@click.option("--floor", default=0.1, show_default=True, help="b: what a failure counts as.")
def report_command(
    stores: tuple[Path, ...],
    kind: str | None,
    out: Path | None,
    title: str,
    roots: tuple[Path, ...],
    penalty: float,
    floor: float,
) -> None:
    """Report on STORES (results.jsonl, or folders that hold one): tables, or one self-contained HTML file.

    The texts of the graphs are looked for below --root and the current folder.
    """
    kind = kind or _kind_of(out)
    paths = [_store_path(path) for path in stores]
    settings, weights = ScoreSettings(penalty, floor), chosen_weights()
    created = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")

    def say(text: str) -> None:
        click.echo(text, err=True)

    if kind == "html":
        from pass_bench.report.detail import detail_json, log_limit
        from pass_bench.report.page import ReportInput, render_page
        from pass_bench.report.sources import SourceTexts

        sources = SourceTexts([*roots, Path.cwd()])
        limit = log_limit(sum(_count_lines(path) for path in paths))

        def keep(stored: StoredResult) -> str:
            number = sources.number_of(stored.result.sample, stored.result.graph)
            return detail_json(stored, number, limit)

        submissions = _load(paths, say, keep)
        board = standings(submissions, settings, weights)
        text = render_page(ReportInput(title, created, submissions, board, sources, weights))
        if out is None:
            raise BadInput("an HTML report needs a file", expected="--out report.html")
        _write(out, text)
        return
    submissions = _load(paths, say)
    board = standings(submissions, settings, weights)
    if kind == "terminal":
        from pass_bench.report.terminal import print_report

        if out is None:
            print_report(Console(), board, submissions)
        else:
            with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
                print_report(Console(file=file, width=160), board, submissions)
                file.seek(0)
                _write(out, file.read())
        return
    if kind == "markdown":
        from pass_bench.report.markdown import markdown

        text = markdown(title, created, board, submissions)
    else:
        from pass_bench.report.table_csv import csv_text

        text = csv_text(submissions)
    if out is None:
        click.echo(text, nl=False)
    else:
        _write(out, text)


def _load(
    paths: list[Path], say: Callable[[str], None], keep: Callable[[StoredResult], str] = lambda _: ""
) -> list[Submission]:
    submissions = load_submissions(paths, say, keep)
    if not submissions:
        raise BadInput("no result in it", path=paths[0], expected="a store with results")
    return submissions


def _count_lines(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _kind_of(out: Path | None) -> str:
    if out is None:
        return "terminal"
    return next((kind for kind, suffix in _SUFFIX.items() if suffix and suffix == out.suffix), "terminal")


def _store_path(path: Path) -> Path:
    return path / "results.jsonl" if path.is_dir() else path


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        draft.chmod(0o644)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    click.echo(str(path), err=True)


@click.command(name="merge")
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The store that takes them in.")
def merge_command(stores: tuple[Path, ...], out: Path) -> None:
    """Bring the STORES of several machines together in one; it may exist already."""
    sources = [_store_path(path) for path in stores]
    for source in sources:
        if not source.is_file():
            raise BadInput("no such store", path=source, expected="a results.jsonl")
    changed = merge_stores(sources, out, lambda text: click.echo(text, err=True))
    click.echo(f"{out}: {changed} results taken in")
