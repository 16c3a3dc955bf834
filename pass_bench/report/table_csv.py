"""The report as CSV: one line per graph of every submission."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from pass_bench.report.leaderboard import inductor_of, inductor_speeds
from pass_bench.report.load import Row, Submission

COLUMNS = (
    *("submission", "compiler", "sample", "graph", "index", "dtype", "verdict", "correct", "passes_from"),
    *("speedup", "low", "high", "eager_us", "compiled_us", "unrewritten_speedup", "vs_inductor"),
    *("weak", "noisy", "interpreted", "measured_at", "environment", "reason"),
)


def csv_text(submissions: Sequence[Submission]) -> str:
    """All rows; speedups of interpreted graphs are empty, since their time is not a speed."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for submission in submissions:
        inductor = inductor_of(submission, submissions)
        theirs = {} if inductor is None else inductor_speeds(inductor.rows)
        for row in submission.rows:
            writer.writerow(_line(submission, row, theirs.get(row.name)))
    return buffer.getvalue()


def _line(submission: Submission, row: Row, inductor: float | None) -> list[object]:
    e2e = None if row.interpreted else row.e2e
    ratio = row.speed.speedup / inductor if row.speed is not None and inductor else None
    values: list[object] = [
        submission.label,
        submission.compiler,
        row.sample,
        row.graph,
        row.index,
        row.dtype,
    ]
    values += [row.verdict, int(row.correct), row.outcome.passes_from]
    values += [None, None, None] if e2e is None else [e2e.speedup, e2e.low, e2e.high]
    values += [row.eager_us, row.compiled_us, row.unrewritten, ratio]
    values += [int(row.weak), int(row.noisy), int(row.interpreted), row.measured_at, row.environment]
    values.append(row.reason)
    return [_cell(value) for value in values]


def _cell(value: object) -> object:
    """The value; text that a spreadsheet would take for a formula gets an apostrophe in front."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value
