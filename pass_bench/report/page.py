"""The report as one HTML file that needs nothing else: no network, no server, no other file."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pass_bench.errors import BadInput
from pass_bench.report import plots
from pass_bench.report.compare import ComparedSubmissions, compare, pairs_to_compare
from pass_bench.report.leaderboard import Standing, failure_classes, inductor_of, inductor_speeds
from pass_bench.report.load import Row, Submission
from pass_bench.report.sources import SourceTexts

_TEMPLATES = Path(__file__).parent / "templates"
_CHANGE_LETTERS = {"better": "b", "same": "s", "worse": "w", "incomparable": "i"}


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a page is made of; `board` is sorted, `sources` holds the texts that the rows' details number."""

    title: str
    created: str
    submissions: Sequence[Submission]
    board: Sequence[Standing]
    sources: SourceTexts
    weights: Mapping[int, float]


def render_page(report: ReportInput) -> str:
    """The whole page. Everything that came from a pass or a log is escaped, or shown as plain text.

    Raises BadInput where jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise BadInput("an HTML report needs jinja2", expected="pip install 'passnet[report]'") from None

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(number=_number, percent=_percent)
    order = [standing.submission for standing in report.board]
    colours = _colours(report.board)
    compared = [
        compare(report.submissions[i], report.submissions[j]) for i, j in pairs_to_compare(report.submissions)
    ]
    sparse = [item for item in compared if item.changes]
    verdicts = [name for standing in report.board for name, _ in failure_classes(standing)]
    return environment.get_template("report.html.j2").render(
        report=report,
        board=report.board,
        colours=colours,
        samples=len({row.sample for submission in order for row in submission.rows}),
        graphs=len({row.name for submission in order for row in submission.rows}),
        environments=_environments(order),
        es_plot=plots.es_plot(report.board, report.weights, colours),
        profile_plot=plots.profile_plot(report.board, colours),
        histogram=plots.histogram_plot,
        failure_bar=plots.failure_bar,
        failure_classes=failure_classes,
        verdicts=list(dict.fromkeys(verdicts)),
        change_plot=plots.change_plot,
        compared=sparse,
        fast=(1.0, 1.5, 2.0),
        style=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=(_TEMPLATES / "report.js").read_text(encoding="utf-8"),
        payload=_payload(report, order, colours, sparse),
    )


def _colours(board: Sequence[Standing]) -> dict[str, str]:
    """A colour class per submission: vivid ones for passes, quiet ones for what they are measured against."""
    colours, vivid, quiet = {}, 0, 0
    for standing in board:
        if standing.baseline:
            colours[standing.submission.title] = f"q{quiet % 3}"
            quiet += 1
        else:
            colours[standing.submission.title] = f"c{vivid % 6}"
            vivid += 1
    return colours


def _environments(submissions: Sequence[Submission]) -> list[dict[str, Any]]:
    """The machines behind the numbers, each once, with the submissions measured there."""
    found: dict[str, dict[str, Any]] = {}
    for submission in submissions:
        for name, record in submission.environments.items():
            entry = found.setdefault(name, {"record": record, "submissions": []})
            entry["submissions"].append(submission.title)
    return list(found.values())


def _payload(
    report: ReportInput,
    order: Sequence[Submission],
    colours: Mapping[str, str],
    compared: Sequence[ComparedSubmissions],
) -> str:
    """The tables' data as gzip in base64: what report.js unpacks."""
    names = sorted({row.sample for submission in order for row in submission.rows})
    number = {name: i for i, name in enumerate(names)}
    rows, details = [], []
    scores = []
    for i, standing in enumerate(report.board):
        measured = inductor_of(standing.submission, order)
        inductor = {} if measured is None else inductor_speeds(measured.rows)
        for row in standing.submission.rows:
            rows.append(_row(i, number[row.sample], row, inductor))
            details.append(row.detail or "{}")
        for sample, summary in standing.by_sample.items():
            scores.append(
                [
                    i,
                    number[sample],
                    _six(summary.score),
                    summary.correct,
                    summary.judged,
                    _six(summary.speedup),
                ]
            )
    head = {
        "subs": [[s.title, s.label, s.compiler, colours[s.title]] for s in order],
        "samples": names,
        "rows": rows,
        "scores": scores,
        "pairs": [_pair(item, order) for item in compared],
        "codes": report.sources.texts,
    }
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    whole = f'{text[:-1]},"details":[{",".join(details)}]}}'
    return base64.b64encode(gzip.compress(whole.encode(), 7, mtime=0)).decode()


def _row(submission: int, sample: int, row: Row, inductor: Mapping[Any, float]) -> list[Any]:
    e2e = row.e2e if not row.interpreted else None
    baseline = inductor.get(row.name)
    return [
        submission,
        sample,
        row.graph,
        row.index,
        row.dtype,
        row.verdict,
        *((_six(e2e.speedup), _six(e2e.low), _six(e2e.high)) if e2e else (None, None, None)),
        _six(row.eager_us),
        _six(row.compiled_us),
        row.weak * 1 + row.noisy * 2 + row.interpreted * 4,
        row.outcome.passes_from,
        _six(e2e.speedup / baseline) if e2e and baseline and row.correct else None,
        row.reason[:200],
    ]


def _pair(compared: ComparedSubmissions, order: Sequence[Submission]) -> list[Any]:
    """Indices of both submissions and, for each row of the second, a letter for what changed."""
    letters = {change.name: _CHANGE_LETTERS[change.change] for change in compared.changes}
    text = "".join(letters.get(row.name, "-") for row in compared.second.rows)
    return [order.index(compared.first), order.index(compared.second), text]


def _six(value: float | None) -> float | None:
    return None if value is None or value != value else float(f"{value:.6g}")


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
