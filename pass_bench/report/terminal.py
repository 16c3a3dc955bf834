"""The report for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pass_bench.report.compare import ComparedSubmissions, compare, pairs_to_compare
from pass_bench.report.leaderboard import Standing, failure_classes
from pass_bench.report.load import Submission

_VERDICT_STYLE = {"correct": "green", "accuracy": "yellow", "pass_miss": "blue", "infra": "dim"}
_SHOWN_SAMPLES = 12


def printable(text: str, most: int = 120) -> str:
    """A text that cannot move a terminal's cursor: control characters become spaces."""
    return "".join(c if c.isprintable() else " " for c in text)[:most]


def print_report(console: Console, board: Sequence[Standing], submissions: Sequence[Submission]) -> None:
    """Leaderboard, verdicts, best and worst samples of the leader, changes between submissions."""
    console.print(leaderboard_table(board))
    console.print()
    console.print(verdict_table(board))
    for standing in board:
        for reason, count in standing.left_out.items():
            console.print(f"{standing.submission.title}: {count} {reason}", style="dim", markup=False)
    leader = next((standing for standing in board if not standing.baseline and standing.score), None)
    if leader is not None and len(leader.by_sample) > 1:
        console.print()
        console.print(sample_table(leader))
    compared = [compare(submissions[i], submissions[j]) for i, j in pairs_to_compare(submissions)]
    if any(item.changes for item in compared):
        console.print()
        console.print(change_table([item for item in compared if item.changes]))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", header_style="dim")
    return table


def leaderboard_table(board: Sequence[Standing]) -> Table:
    """One row per submission."""
    table = _table(
        "Leaderboard", "submission", "graphs", "AS", "G-Mean", "correct", "≥1×", "≥1.5×", "≥2×", "vs Inductor"
    )
    for standing in board:
        inductor = standing.inductor
        table.add_row(
            escape(printable(standing.submission.title)),
            str(standing.graphs),
            number(standing.score),
            times(standing.speedup),
            percent(standing.correct_share),
            *(percent(standing.fast.get(p)) for p in (1.0, 1.5, 2.0)),
            "–" if inductor is None else f"{inductor.speedup:.2f}× ({inductor.graphs})",
            style="dim" if standing.baseline else "",
        )
    return table


def verdict_table(board: Sequence[Standing]) -> Table:
    """One row per submission: its verdicts, and how many graphs are weak or noisy."""
    table = _table("Verdicts", "submission", "weak", "noisy", "verdicts")
    for standing in board:
        verdicts = Text()
        for name, count in failure_classes(standing):
            verdicts.append(f"{count} {name.replace('_', ' ')}  ", style=_VERDICT_STYLE.get(name, "red"))
        title = escape(printable(standing.submission.title))
        table.add_row(title, str(standing.weak), str(standing.noisy), verdicts)
    return table


def sample_table(standing: Standing) -> Table:
    """The best and the worst samples of a submission."""
    scored = [(name, s) for name, s in standing.by_sample.items() if s.score is not None]
    scored.sort(key=lambda item: -(item[1].score or 0))
    half = _SHOWN_SAMPLES // 2
    shown = scored if len(scored) <= _SHOWN_SAMPLES else [*scored[:half], None, *scored[-half:]]
    table = _table(
        f"Samples of {printable(standing.submission.title)}", "sample", "graphs", "correct", "AS", "G-Mean"
    )
    for item in shown:
        if item is None:
            table.add_row(f"… {len(scored) - _SHOWN_SAMPLES} more", style="dim")
            continue
        name, summary = item
        table.add_row(
            escape(printable(name)),
            str(summary.graphs),
            f"{summary.correct}/{summary.judged}",
            number(summary.score),
            times(summary.speedup),
        )
    return table


def change_table(compared: Sequence[ComparedSubmissions]) -> Table:
    """One row per pair of submissions."""
    table = _table("Changes", "from → to", "better", "same", "worse", "not comparable", "ratio", "")
    for item in compared:
        table.add_row(
            escape(printable(f"{item.first.title} → {item.second.title}", 200)),
            f"[green]{item.count('better')}[/]",
            str(item.count("same")),
            f"[red]{item.count('worse')}[/]",
            str(item.count("incomparable")),
            "–" if item.ratio is None else f"{item.ratio:.3f}×",
            "" if item.same_environment else "other environment",
        )
    return table


def number(value: float | None) -> str:
    """Three decimals, or a dash."""
    return "–" if value is None else f"{value:.3f}"


def times(value: float | None) -> str:
    """A speedup, or a dash."""
    return "–" if value is None else f"{value:.2f}×"


def percent(value: float | None) -> str:
    """A share, or a dash."""
    return "–" if value is None else f"{100 * value:.0f} %"
