"""`passbench score`: score what was measured before, without a device and without torch."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from pass_bench.score.aggregate import chosen_weights
from pass_bench.score.es import ScoreSettings
from pass_bench.score.read import read_outcomes
from pass_bench.score.score_file import score_document
from pass_bench.score.summary import ScoreSummary, mean_score, summarize


@click.command(name="score")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--penalty", default=0.0, show_default=True, help="p: a slower graph counts s^(p+1).")
@click.option("--floor", default=0.1, show_default=True, help="b: what a failure counts as.")
@click.option(
    "--interpretation",
    type=click.Choice(["default", "mismatch_extended"]),
    default="default",
    show_default=True,
    help="From which t on each class of errors is tolerated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON.")
def score_command(
    path: Path,
    penalty: float,
    floor: float,
    interpretation: Literal["default", "mismatch_extended"],
    as_json: bool,
) -> None:
    """Score PATH, a store (results.jsonl) or a reference-style log."""
    settings = ScoreSettings(penalty, floor, interpretation)
    weights = chosen_weights()
    graphs = sorted(read_outcomes(path, lambda text: click.echo(text, err=True)), key=lambda g: g.group)
    summaries = {
        group: summarize((graph.outcome for graph in members), settings, weights)
        for group, members in groupby(graphs, key=lambda g: g.group)
    }
    if as_json:
        documents = [score_document(group, summary, settings) for group, summary in summaries.items()]
        click.echo(json.dumps(documents, indent=1))
        return
    Console().print(score_table(summaries))
    for group, summary in summaries.items():
        if summary.note:
            click.echo(f"{group}: {summary.note}")
    overall = mean_score(summary.score for summary in summaries.values())
    click.echo(f"AS over {len(summaries)} samples: {_number(overall)}")


def score_table(summaries: dict[str, ScoreSummary]) -> Table:
    """One row per sample."""
    table = Table("sample", box=None, header_style="bold", pad_edge=False)
    for heading in ("graphs", "correct", "AS", "S(-5)", "ES(1)", "speedup", "fast_1", "fast_1.5", "fast_2"):
        table.add_column(heading, justify="right")
    for group, summary in summaries.items():
        table.add_row(
            group,
            str(summary.graphs),
            f"{summary.correct}/{summary.judged}",
            _number(summary.score),
            _number(summary.s.get(-5)),
            _number(summary.es.get(1)),
            _number(summary.speedup),
            *(_number(summary.fast.get(p), percent=True) for p in (1.0, 1.5, 2.0)),
        )
    return table


def _number(value: float | None, percent: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.0f} %" if percent else f"{value:.3f}"
