"""`passbench eval`: evaluate one sample and print what came out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import click

from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import EvalSettings, GraphResult, Regime
from pass_bench.results.verdict import Verdict

REGIMES: tuple[Regime, ...] = get_args(Regime)


def parse_regimes(text: str) -> tuple[Regime, ...]:
    """Split "recorded,random"; raises BadInput for an unknown name."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in REGIMES:
            raise BadInput(f"unknown regime {name!r}", expected=f"some of {', '.join(REGIMES)}")
    if "recorded" not in names:
        raise BadInput("the recorded regime cannot be left out", expected=f"some of {', '.join(REGIMES)}")
    return cast(tuple[Regime, ...], names)


@contextmanager
def progress(total: int, quiet: bool) -> Iterator[Callable[[GraphResult | None], None]]:
    """Show a bar on stderr where that is a terminal; the yielded function counts a result."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task("starting workers", total=total)

        def count(result: GraphResult | None) -> None:
            if result is None:
                bar.update(task, description="evaluating")
            else:
                bar.update(task, advance=1, description=f"{result.graph[-40:]}: {result.verdict.value}")

        yield count


@click.command("eval")
@click.argument("sample", type=click.Path(path_type=Path))
@click.option(
    "--compiler", default="pass_mgr_direct", show_default=True, help="How graphs run; see the README."
)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option(
    "--warmup", type=click.IntRange(0, 10_000), default=25, show_default=True, help="Untimed rounds."
)
@click.option(
    "--trials", type=click.IntRange(3, 100_000), default=100, show_default=True, help="Timed rounds."
)
@click.option("--regimes", default="recorded,random", show_default=True, help="Input regimes, with commas.")
@click.option("--compat", is_flag=True, help="Judge and time as published numbers were.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for results.jsonl, eval.log and the score."
)
@click.option("--replace", is_flag=True, help="Remove the last run's results from the folder first.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
@click.option("--pass-dir", type=click.Path(path_type=Path), help="Passes from here, not from the sample.")
@click.option("--const-pass-dir", type=click.Path(path_type=Path), help="Passes that apply before those.")
@click.option("--pattern-limit", type=click.IntRange(1), help="Keep at most this many passes.")
@click.option("--replacement-func-limit", type=click.IntRange(1), help="Keep at most this many functions.")
@click.option(
    "--timeout", type=click.FloatRange(1), default=300.0, show_default=True, help="Seconds per graph."
)
@click.option(
    "--time-budget", type=click.FloatRange(0), default=60.0, show_default=True, help="For its trials."
)
@click.option("--sandbox", type=click.Choice(["require", "auto", "off"]), default="auto", show_default=True)
@click.option("--sample-id", default="", help="Written as the score's id; the sample's path unless given.")
def eval_command(sample: Path, out: Path | None, replace: bool, as_json: bool, **choices: Any) -> int:
    """Evaluate the passes of SAMPLE: do they match, is the result right, how fast is it."""
    return evaluate_and_print(sample, out, replace, as_json, **choices)


def evaluate_and_print(
    path: Path,
    out: Path | None,
    replace: bool,
    as_json: bool,
    *,
    regimes: str,
    pass_dir: Path | None,
    const_pass_dir: Path | None,
    sample_id: str,
    timeout: float,
    time_budget: float,
    **choices: Any,
) -> int:
    """Run `passbench eval`; returns the exit code. Raises BadInput, HarnessFailure."""
    from pass_bench.data import read_sample
    from pass_bench.score.aggregate import chosen_weights
    from pass_bench.score.es import ScoreSettings
    from pass_bench.score.outcome import outcome_of
    from pass_bench.score.summary import summarize
    from pass_bench.worker.evaluate import Evaluator
    from pass_bench.worker.output import OutputFolder

    settings = EvalSettings(
        regimes=parse_regimes(regimes), timeout_s=timeout, time_budget_s=time_budget, **choices
    )
    sample = read_sample(path)
    const_pass_dir = const_pass_dir or sample.const_pass_dir
    weights = chosen_weights()
    if out is not None:
        OutputFolder.check(out, replace)
    results: list[GraphResult] = []
    with ExitStack() as stack:
        count = stack.enter_context(progress(len(sample.graphs), as_json))
        evaluator = stack.enter_context(Evaluator(settings))
        assert evaluator.environment is not None
        names = evaluator.check(sample, pass_dir, const_pass_dir)
        count(None)
        folder = None
        if out is not None:
            folder = stack.enter_context(
                OutputFolder(
                    out,
                    sample,
                    settings,
                    evaluator.environment,
                    passes=(pass_dir or sample.pass_dir, const_pass_dir),
                    replace=replace,
                )
            )
        evaluator.precompile(sample, pass_dir, const_pass_dir)
        for index in range(len(sample.graphs)):
            result = evaluator.evaluate_graph(
                sample, index, names=names, pass_dir=pass_dir, const_pass_dir=const_pass_dir
            )
            results.append(result)
            count(result)
            if folder is not None:
                folder.add(result)
        summary = summarize(map(outcome_of, results), ScoreSettings(), weights)
        identity: int | str = int(sample_id) if sample_id.isdecimal() else sample_id or str(path)
        if folder is not None:
            folder.finish(identity, summary, ScoreSettings())
    if as_json:
        print_json(identity, results, summary, evaluator.environment)
    else:
        print_table(results, summary, settings.compiler, evaluator.environment.device_name)
        if out is not None:
            click.echo(f"written to {out}")
    if all(result.verdict is Verdict.INFRA for result in results):
        raise HarnessFailure(f"no graph could be evaluated: {results[0].reason}")
    return 0


def print_table(results: list[GraphResult], summary: Any, compiler: str, device: str) -> None:
    """Print the table and the scores; a pipe gets 160 columns."""
    from rich.console import Console

    from pass_bench.worker.table import results_table, summary_lines

    console = Console(width=None if os.isatty(1) else 160, highlight=False)
    console.print(results_table(results))
    for line in summary_lines(summary, f"{compiler} on {device}"):
        console.print(line, soft_wrap=True)


def print_json(identity: int | str, results: list[GraphResult], summary: Any, environment: Any) -> None:
    """Print results and scores as one JSON document."""
    from pass_bench.score.es import ScoreSettings
    from pass_bench.score.score_file import score_document

    document = {
        "score": score_document(identity, summary, ScoreSettings()),
        "environment": environment.model_dump(mode="json"),
        "results": [result.model_dump(mode="json") for result in results],
    }
    click.echo(json.dumps(document, indent=1))
