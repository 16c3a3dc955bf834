"""`passagent show` and `passagent replay`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from pass_agent.agent.state import AttemptState
from pass_agent.errors import BadInput
from pass_agent.evaluation.evaluator import Evaluation, Evaluator, EvaluatorSettings
from pass_agent.evaluation.graph_source import read_graph_source
from pass_agent.evaluation.sample import read_sample_source
from pass_agent.journal.html import html_page
from pass_agent.journal.log import Start, Told, read_journal
from pass_agent.journal.replay import clear, compare, recall, replay_live
from pass_agent.journal.terminal import show_journal, show_run
from pass_agent.records import Step
from pass_agent.runtime.local import LocalRuntime
from pass_agent.tools.outside import Live
from pass_agent.tools.workspace import Workspace


def find_journal(path: Path) -> Path:
    """A journal, given as itself or as its attempt's folder."""
    found = path / "journal.jsonl" if path.is_dir() else path
    if not found.is_file():
        raise BadInput("no journal here", path=path)
    return found


def experiment_folder(journal: Path) -> Path:
    """The folder of the run: <exp>/tasks/<task>/attempt_<n>/journal.jsonl."""
    return journal.resolve().parents[3]


@click.command("show")
@click.argument("path", type=Path)
@click.option("--html", "page", type=Path, default=None, help="Write one self-contained HTML file instead.")
@click.option("--full", is_flag=True, help="Whole observations, not their first lines.")
def show_command(path: Path, page: Path | None, full: bool) -> int:
    """Show an attempt (its folder or journal.jsonl), or list the attempts of a run (its folder)."""
    if (path / "tasks").is_dir():
        if page is not None:
            raise BadInput("--html shows one attempt: give its folder", path=path)
        show_run(path)
        return 0
    journal = find_journal(path)
    told = read_journal(journal)
    if told.start is None:
        raise BadInput("the journal is empty", path=journal)
    if page is None:
        show_journal(told, full)
    else:
        evaluations = _kept(journal, told)
        page.write_text(html_page(told, evaluations), encoding="utf-8")
        click.echo(str(page))
    return 0


def _kept(journal: Path, told: Told) -> dict[str, Evaluation]:
    evaluations = {}
    for key in {key for step in told.steps for key in step.evaluations}:
        file = experiment_folder(journal) / "evaluations" / f"{key}.json"
        if file.is_file():
            evaluations[key] = Evaluation.model_validate_json(file.read_bytes())
    return evaluations


@click.command("replay")
@click.argument("path", type=Path)
@click.option("--evaluate", is_flag=True, help="Evaluate again instead of using the recorded evaluations.")
@click.option("--keep", type=Path, default=None, help="Leave the final pass_dir in this folder.")
def replay_command(path: Path, evaluate: bool, keep: Path | None) -> int:
    """Run an attempt's steps again without the model, and say where they come out differently."""
    journal = find_journal(path)
    told = read_journal(journal)
    if told.start is None:
        raise BadInput("the journal is empty", path=journal)
    with tempfile.TemporaryDirectory(prefix="passagent-replay-") as folder:
        state, evaluator = _state(told.start, keep or Path(folder), journal)
        if evaluate:
            return _again(state, told, Live(evaluator))
        recall(state, told.steps, lambda key: _load(evaluator, key))
    click.echo(f"{len(told.steps)} steps replay exactly")
    return 0


def _load(evaluator: Evaluator, key: str) -> Evaluation:
    kept = evaluator.cached(key)
    if kept is None:
        raise BadInput(f"the evaluation {key} is not kept any more", path=evaluator.cache)
    return kept


def _state(start: Start, folder: Path, journal: Path) -> tuple[AttemptState, Evaluator]:
    sample = read_sample_source(Path(start.sample), start.task.instance_id)
    if sample.hash != start.sample_hash:
        click.echo("note: the sample or its pass_bench was changed since", err=True)
    runtime = LocalRuntime(folder / "boxes")
    settings = EvaluatorSettings(
        device=str(start.environment.get("device", "")),
        timeout_s=float(start.environment.get("timeout_s", 1800)),
        environment=dict(start.environment.get("passnet", {})),
    )
    evaluator = Evaluator(sample, runtime, settings, experiment_folder(journal) / "evaluations")
    state = AttemptState(
        workspace=Workspace(sample, folder),
        sources={listed: read_graph_source(graph, listed) for listed, graph in sample.graphs},
        pass_sets=folder / "pass_sets",
        tools=frozenset(tool["function"]["name"] for tool in start.tools),
        bandwidth=start.bandwidth,
    )
    clear(state, start.start_files)
    return state, evaluator


def _again(state: AttemptState, told: Told, live: Live) -> int:
    """Replay with fresh evaluations: files must agree, results may differ and are shown."""
    evaluator = live.evaluator
    evaluator.cache = state.workspace.folder / "evaluations"
    differences: list[str] = []

    def report(step: Step, again: Step) -> None:
        if step.pass_set != again.pass_set:
            differences.append(compare(step, again))
        for key, _ in zip(again.evaluations, step.evaluations, strict=True):
            result = next(one for one in state.evaluations if one.key == key)
            score = "none" if result.score is None else f"{result.score:.4g}"
            click.echo(f"step {step.index}: {result.status}, score {score}")

    replay_live(state, told.steps, live, report)
    best = "none" if state.best is None or state.best.score is None else f"{state.best.score:.4g}"
    recorded = "none" if not told.ended or told.ended.reward is None else f"{told.ended.reward:.4g}"
    click.echo(f"best score {best}, recorded {recorded}")
    if differences:
        raise BadInput(f"the steps do not replay: {differences[0]}")
    return 0
