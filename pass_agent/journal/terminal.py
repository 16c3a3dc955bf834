"""Trajectories on a terminal."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from pass_agent.journal.log import Told, read_journal
from pass_agent.journal.trajectory import action_text
from pass_agent.records import Ended, Step
from pass_agent.text import cap, first_lines

SHOWN_LINES = 12


def show_run(folder: Path, console: Console | None = None) -> None:
    """List the attempts of a run: steps, reward, how they ended."""
    console = console or Console()
    table = Table("task", "attempt", "steps", "evaluations", "reward", "ended", "tokens", "USD")
    for journal in sorted(folder.glob("tasks/*/attempt_*/journal.jsonl")):
        told = read_journal(journal)
        if told.start is None:
            continue
        cost, tokens = told.spent
        table.add_row(
            escape(told.start.task.instance_id),
            str(told.start.attempt),
            str(len(told.steps)),
            str(sum(len(step.evaluations) for step in told.steps)),
            _reward(told.ended),
            _ended(told.ended),
            str(tokens),
            f"{cost:.3f}",
        )
    console.print(table)


def _reward(ended: Ended | None) -> str:
    return "" if ended is None else ("none" if ended.reward is None else f"{ended.reward:.4g}")


def _ended(ended: Ended | None) -> str:
    if ended is None:
        return "unfinished"
    return ended.reason + (f" ({ended.early_stop})" if ended.early_stop else "")


def show_journal(told: Told, full: bool, console: Console | None = None) -> None:
    """Print an attempt step by step."""
    console = console or Console()
    start = told.start
    assert start is not None
    console.print(
        f"[bold]{escape(start.task.instance_id)}[/bold] attempt {start.attempt}, {escape(start.model)}"
    )
    for step in told.steps:
        usage = step.reply.usage
        title = f"step {step.index}  {usage.prompt}+{usage.completion} tokens  {step.reply.seconds:.1f} s"
        console.print(Panel(_body(step, full), title=title, title_align="left"))
    if told.pending is not None:
        console.print("one more answer came whose calls were not run")
    ended = told.ended
    if ended is None:
        console.print("unfinished")
        return
    note = f" ({ended.reward_note})" if ended.reward_note else ""
    console.print(
        f"[bold]{_ended(ended)}[/bold] {escape(ended.detail)}; reward {_reward(ended)}{escape(note)}"
    )


def _body(step: Step, full: bool) -> str:
    parts = []
    if step.reply.reasoning:
        parts.append(f"[dim]{escape(_cut(step.reply.reasoning, full))}[/dim]")
    if step.reply.content:
        parts.append(escape(_cut(step.reply.content, full)))
    if step.reply.calls:
        parts.append(f"[cyan]{escape(_cut(action_text(step.reply.calls), full))}[/cyan]")
    for observation in step.observations:
        colour = "red" if observation.failed else "green"
        parts.append(f"[{colour}]{escape(_cut(observation.text, full))}[/{colour}]")
    if step.message:
        parts.append(f"[yellow]{escape(step.message)}[/yellow]")
    return "\n".join(parts)


def _cut(text: str, full: bool) -> str:
    if full:
        return text
    lines = first_lines(text, SHOWN_LINES)
    more = len([line for line in text.splitlines() if line.strip()]) - len(lines)
    return "\n".join(lines) + (f"\n… {more} more lines" if more > 0 else "") if lines else cap(text, 200)
