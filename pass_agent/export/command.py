"""`passagent export`: training data from trajectories."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import click

from pass_agent.errors import BadInput
from pass_agent.export.episodes import Episode, read_episodes
from pass_agent.export.formats import FORMATS, FormatSettings, example_key
from pass_agent.export.leakage import eval_hashes


@click.command("export")
@click.argument("trajectories", nargs=-1, required=True, type=Path)
@click.option("--format", "form", type=click.Choice(sorted(FORMATS)), required=True)
@click.option("--out", type=Path, required=True, help="The JSON-lines file to write.")
@click.option("--min-score", type=float, default=None, help="Least reward of an attempt.")
@click.option("--improved", is_flag=True, help="Only attempts whose best score is above their first.")
@click.option("--allow-infra", is_flag=True, help="Also attempts in which the harness failed.")
@click.option(
    "--allow-rejected", is_flag=True, help="Also attempts with a pass that broke an integrity rule."
)
@click.option("--eval-list", multiple=True, type=Path, help="Samples kept for evaluation; may be repeated.")
@click.option("--samples-root", type=Path, default=Path(), help="What the lists' paths are relative to.")
@click.option("--margin", type=click.FloatRange(0), default=0.05, help="dpo: relative difference of a pair.")
@click.option("--pairs", type=click.IntRange(1), default=8, help="dpo: pairs at most for a task.")
def export_command(
    trajectories: tuple[Path, ...],
    form: str,
    out: Path,
    min_score: float | None,
    improved: bool,
    allow_infra: bool,
    allow_rejected: bool,
    eval_list: tuple[Path, ...],
    samples_root: Path,
    margin: float,
    pairs: int,
) -> int:
    """Write training data from TRAJECTORIES (`<exp>.jsonl`), and say what was left out and why."""
    kept_out = eval_hashes(eval_list, samples_root)
    left: dict[str, int] = {}
    chosen: list[Episode] = []
    seen: set[tuple[str, str, int, str]] = set()
    for path in trajectories:
        for episode in read_episodes(path):
            why = refusal(episode, min_score, improved, allow_infra, allow_rejected, kept_out)
            if episode.identity in seen:
                why = "seen twice"
            seen.add(episode.identity)
            if why:
                left[why] = left.get(why, 0) + 1
            else:
                chosen.append(episode)
    written, doubles = _write(out, form, chosen, FormatSettings(margin=margin, pairs=pairs))
    click.echo(f"{out}: {written} examples from {len(chosen)} attempts")
    if doubles:
        click.echo(f"left out: {doubles} doubles")
    for why, count in sorted(left.items()):
        click.echo(f"left out: {count} attempts, {why}")
    return 0


def refusal(
    episode: Episode,
    min_score: float | None,
    improved: bool,
    allow_infra: bool,
    allow_rejected: bool,
    kept_out: frozenset[str],
) -> str:
    """Why an attempt is left out; "" if it is not."""
    if episode.graph_hashes & kept_out:
        return "their graphs are in an evaluation list"
    if episode.infra and not allow_infra:
        return "the harness failed in them"
    if episode.reward is None and not allow_infra:
        return "they have no reward"
    if episode.rejected and not allow_rejected:
        return "an integrity rule was broken in them"
    if min_score is not None and (episode.reward is None or episode.reward < min_score):
        return f"reward below {min_score:g}"
    if improved and not episode.improved:
        return "no improvement over their first evaluation"
    return ""


def _write(out: Path, form: str, episodes: list[Episode], settings: FormatSettings) -> tuple[int, int]:
    if out.is_dir():
        raise BadInput("a folder, not a file", path=out)
    out.parent.mkdir(parents=True, exist_ok=True)
    seen: set[str] = set()
    written = doubles = 0
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as target:
        for example in FORMATS[form](episodes, settings):
            key = hashlib.sha256(example_key(example).encode()).hexdigest()
            if key in seen:
                doubles += 1
                continue
            seen.add(key)
            target.write(json.dumps(example, ensure_ascii=False) + "\n")
            written += 1
    partial.replace(out)
    return written, doubles
