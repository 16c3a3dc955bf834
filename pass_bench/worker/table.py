"""The table that `passbench eval` prints; rich only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pass_bench.results.records import Comparison, GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.score.summary import ScoreSummary

STYLES = {
    Verdict.CORRECT: "green",
    Verdict.ACCURACY: "yellow",
    Verdict.NOTHING_TO_CHECK: "dim",
    Verdict.UNSUPPORTED_ON_CPU: "dim",
    Verdict.INFRA: "magenta",
}
SHOWN_LEVELS = (-10, -5, -3, 0, 1, 2, 3)


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the shortest ends of the paths that tell them apart."""
    parts = [PurePath(path).parts for path in paths]
    for count in range(1, max((len(one) for one in parts), default=1) + 1):
        names = ["/".join(one[-count:]) for one in parts]
        if len(set(names)) == len(set(paths)):
            return names
    return list(paths)


def results_table(results: Sequence[GraphResult]) -> RenderableType:
    """Return one row per graph, and under the table a line for each that needs a word."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right", style="dim")
    table.add_column("graph", overflow="fold", ratio=3)
    table.add_column("passes", overflow="fold", ratio=2)
    table.add_column("verdict", no_wrap=True)
    table.add_column("speedup", justify="right", no_wrap=True)
    table.add_column("eager → compiled", justify="right", no_wrap=True)
    unrewritten = any(result.unrewritten is not None for result in results)
    if unrewritten:
        table.add_column("no passes", justify="right", no_wrap=True)
    table.add_column("right from", justify="right", no_wrap=True)
    for result, name in zip(results, short_names([result.graph for result in results]), strict=True):
        cells: list[RenderableType] = [
            str(result.index + 1),
            name,
            passes_cell(result),
            Text(result.verdict.value, style=STYLES.get(result.verdict, "red")),
            speed_cell(result),
            times_cell(result),
        ]
        if unrewritten:
            cells.append("" if result.unrewritten is None else f"{result.unrewritten.speedup:.2f}×")
        cells.append(level_cell(result))
        table.add_row(*cells)
    return Group(table, *remarks(results))


def passes_cell(result: GraphResult) -> str:
    """Return "FusedAddNorm ×2": what was put in place."""
    placed = [report for report in result.passes if report.replaced]
    return ", ".join(r.name if r.replaced == 1 else f"{r.name} ×{r.replaced}" for r in placed) or "–"


def speed_cell(result: GraphResult) -> Text:
    """Return "1.84× [1.82, 1.86]", a tilde before it where the interval stayed wide."""
    comparison = result.e2e
    if comparison is None:
        return Text("–", style="dim")
    if result.interpreted:
        return Text("interpreted", style="dim")
    style = "bold green" if comparison.low > 1 else "red" if comparison.high < 1 else ""
    text = Text(f"{'~' if comparison.noisy else ''}{comparison.speedup:.2f}×", style=style)
    text.append(f" [{comparison.low:.2f}, {comparison.high:.2f}]", style="dim")
    return text


def times_cell(result: GraphResult) -> str:
    """Return "142 → 77 µs"."""
    comparison: Comparison | None = result.e2e
    if comparison is None or result.interpreted:
        return ""
    one, other = comparison.eager.median_us, comparison.compiled.median_us
    if max(one, other) >= 10_000:
        return f"{one / 1000:.1f} → {other / 1000:.1f} ms"
    return f"{one:.3g} → {other:.3g} µs" if max(one, other) < 1000 else f"{one:.0f} → {other:.0f} µs"


def level_cell(result: GraphResult) -> str:
    """Return the smallest t at which the graph is right."""
    if not result.verdict.ran:
        return ""
    if result.passes_from is None:
        return "no t"
    return f"t = {result.passes_from}" + (" (weak)" if result.weak else "")


def remarks(results: Sequence[GraphResult]) -> list[Text]:
    """Return one line per graph with something to say: why it failed, and what to know about the others."""
    lines = []
    said: set[str] = set()
    for result in results:
        number = f"{result.index + 1:>3}  "
        if result.reason:
            style = STYLES.get(result.verdict, "red")
            lines.append(Text(number, style="dim").append(result.reason, style=style))
        for violation in result.violations:
            where = f"{violation.file}:{violation.line}: " if violation.file else ""
            if f"{violation.rule}: {violation.why}" != result.reason:
                lines.append(Text(f"     {where}{violation.rule}: {violation.why}", style="red"))
        for report in result.passes:
            if report.skipped and report.skipped not in result.reason:
                note = f"{report.name}{'' if report.replaced else ' skipped'}: {report.skipped}"
                if note not in said:
                    said.add(note)
                    lines.append(Text(f"     {note}", style="yellow"))
        for warning in result.warnings:
            if warning not in said:
                said.add(warning)
                lines.append(Text(number, style="dim").append(warning, style="dim"))
    if any(result.weak for result in results):
        lines.append(
            Text("     weak: an answer that computes nothing would pass at t = -3 already", style="dim")
        )
    if any(result.e2e is not None and result.e2e.noisy and not result.interpreted for result in results):
        lines.append(Text("     ~: the interval stayed wider than 2 %", style="dim"))
    return lines


def summary_lines(summary: ScoreSummary, where: str) -> list[str]:
    """Return the scores in words."""
    lines = [
        f"{summary.correct} of {summary.judged} graphs correct at t = -5" + (f", {where}" if where else "")
    ]
    if summary.speedup is not None:
        lines[0] += f"; geometric-mean speedup of those {summary.speedup:.3f}×"
    if summary.es:
        levels = "  ".join(f"ES({t}) {summary.es[t]:.3f}" for t in SHOWN_LEVELS if t in summary.es)
        lines.append(levels)
    score = "none: no graph could be scored" if summary.score is None else f"{summary.score:.4f}"
    lines.append(f"aggregated score (AS): {score}")
    if summary.note:
        lines.append(summary.note)
    return lines
