"""`python3 -m pass_bench.aggregate_es_scores`: the aggregated score of a log or a store."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click

from pass_bench.cli import run
from pass_bench.score.aggregate import chosen_weights
from pass_bench.score.es import ScoreSettings
from pass_bench.score.read import read_outcomes
from pass_bench.score.score_file import score_document, write_score
from pass_bench.score.summary import summarize


@click.command(name="aggregate_es_scores", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--benchmark-path", required=True, type=click.Path(path_type=Path), help="Log or store.")
@click.option("--sample-id", default="0", show_default=True, help="Written as the score's id.")
@click.option("--fpdb", default=0.1, show_default=True, help="What a failure counts as.")
@click.option("--negative-speedup-penalty", default=0.0, show_default=True, help="p: slower counts s^(p+1).")
@click.option(
    "--positive-tolerance-interpretation",
    type=click.Choice(["default", "mismatch_extended"]),
    default="default",
    show_default=True,
    help="From which t on each class of errors is tolerated.",
)
@click.option(
    "--enable-aggregation-mode/--disable-aggregation-mode",
    "aggregate",
    default=True,
    show_default=True,
    help="One number over all t, or ES(t) alone.",
)
@click.option("--output-json-file-path", type=click.Path(path_type=Path), help="Where the score goes.")
def command(
    benchmark_path: Path,
    sample_id: str,
    fpdb: float,
    negative_speedup_penalty: float,
    positive_tolerance_interpretation: Literal["default", "mismatch_extended"],
    aggregate: bool,
    output_json_file_path: Path | None,
) -> None:
    """Aggregate ES(t) of the graphs of one sample into its score."""
    settings = ScoreSettings(negative_speedup_penalty, fpdb, positive_tolerance_interpretation)
    weights = chosen_weights() if aggregate else dict.fromkeys(settings.levels, 1.0)
    outcomes = [graph.outcome for graph in read_outcomes(benchmark_path)]
    summary = summarize(outcomes, settings, weights)
    for t, value in summary.es.items():
        click.echo(f"ES({t}) = {value:.6f}")
    if summary.note:
        click.echo(summary.note)
    document = score_document(int(sample_id) if sample_id.isdecimal() else sample_id, summary, settings)
    if aggregate:
        click.echo(f"aggregated_speedup={'none' if summary.score is None else summary.score}")
    else:
        document["score"] = None
    if output_json_file_path is not None:
        write_score(output_json_file_path, document)


if __name__ == "__main__":
    sys.exit(run(command))
