"""The report as Markdown, for a pull request or a README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pass_bench.report.compare import compare, pairs_to_compare
from pass_bench.report.leaderboard import Standing, failure_classes
from pass_bench.report.load import Submission
from pass_bench.report.terminal import number, percent, printable, times

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown(title: str, created: str, board: Sequence[Standing], submissions: Sequence[Submission]) -> str:
    """Leaderboard, ES(t), verdicts, changes and all samples as tables."""
    parts = [f"# {plain(title)}", created, "## Leaderboard", _leaderboard(board)]
    drawn = [standing for standing in board if standing.es]
    if drawn:
        levels = list(drawn[0].es)
        rows = ([plain(s.submission.title), *(f"{s.es[t]:.3f}" for t in levels)] for s in drawn)
        parts += ["## ES(t)", table(["submission", *(str(t) for t in levels)], rows)]
    parts += ["## Verdicts", _verdicts(board)]
    compared = [compare(submissions[i], submissions[j]) for i, j in pairs_to_compare(submissions)]
    changes = [
        [
            f"{plain(c.first.title)} → {plain(c.second.title)}",
            *(str(c.count(kind)) for kind in ("better", "same", "worse", "incomparable")),
            "–" if c.ratio is None else f"{c.ratio:.3f}×",
            "yes" if c.same_environment else "no",
        ]
        for c in compared
        if c.changes
    ]
    if changes:
        heads = ["from → to", "better", "same", "worse", "not comparable", "ratio", "same environment"]
        parts += ["## Changes", table(heads, changes)]
        parts.append("Better and worse mean that the 95 % intervals do not overlap, or that one is wrong.")
    parts += ["## Samples", _samples(board)]
    return "\n\n".join(parts) + "\n"


def _leaderboard(board: Sequence[Standing]) -> str:
    heads = ["submission", "compiler", "graphs", "AS", "G-Mean", "correct", "≥ 1×", "≥ 1.5×", "≥ 2×"]
    heads += ["vs Inductor", "≥ 1× Inductor", "≥ 1.5×", "≥ 2×", "weak", "noisy", "in no mean"]
    rows = []
    for s in board:
        versus = s.inductor
        rows.append(
            [
                plain(s.submission.label),
                plain(s.submission.compiler),
                str(s.graphs),
                number(s.score),
                times(s.speedup),
                f"{percent(s.correct_share)} ({s.correct}/{s.judged})",
                *(percent(s.fast.get(p)) for p in (1.0, 1.5, 2.0)),
                times(None if versus is None else versus.speedup),
                *(percent(None if versus is None else versus.fast.get(p)) for p in (1.0, 1.5, 2.0)),
                str(s.weak),
                str(s.noisy),
                plain(", ".join(f"{count} {reason}" for reason, count in s.left_out.items())),
            ]
        )
    return table(heads, rows)


def _verdicts(board: Sequence[Standing]) -> str:
    names = list(dict.fromkeys(name for standing in board for name, _ in failure_classes(standing)))
    rows = [[plain(s.submission.title), *(str(s.verdicts.get(name, 0)) for name in names)] for s in board]
    return table(["submission", *(name.replace("_", " ") for name in names)], rows)


def _samples(board: Sequence[Standing]) -> str:
    rows = [
        [
            plain(name),
            plain(standing.submission.title),
            str(summary.graphs),
            f"{summary.correct}/{summary.judged}",
            number(summary.score),
            times(summary.speedup),
        ]
        for standing in board
        for name, summary in sorted(standing.by_sample.items())
    ]
    return table(["sample", "submission", "graphs", "correct", "AS", "G-Mean"], rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first to the right."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def plain(text: str) -> str:
    """A text that stays text in Markdown and in the HTML made of it."""
    return _SPECIAL.sub(r"\\\1", printable(text, 200)).replace("&", "&amp;").replace("\\<", "&lt;")
