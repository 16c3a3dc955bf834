"""The table of the suite: one row for each case, for people and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pass_bench.guard.redteam.cases import Case
from pass_bench.guard.redteam.runner import Outcome

BEGIN, END = "<!-- table: passbench selftest -->", "<!-- end of table -->"


def rows(outcomes: Iterable[Outcome]) -> list[tuple[Case, dict[str, Outcome]]]:
    """Outcomes by case, in the order of the cases."""
    found: dict[str, tuple[Case, dict[str, Outcome]]] = {}
    for outcome in outcomes:
        _, by_compiler = found.setdefault(outcome.case.name, (outcome.case, {}))
        by_compiler[outcome.compiler] = outcome
    return list(found.values())


def said(outcome: Outcome | None) -> str:
    """A verdict in a cell: "rejected: patched", or what was wrong about it."""
    if outcome is None:
        return "not run"
    words = outcome.verdict
    if outcome.rules:
        words += f": {', '.join(outcome.rules[:2])}" + ("…" if len(outcome.rules) > 2 else "")
    return words if outcome.as_expected else f"UNEXPECTED {words}"


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Two tables in Markdown, hostile and honest, with the counts that matter."""
    lines = []
    for kind in ("hostile", "honest"):
        chosen = [(case, results) for case, results in rows(outcomes) if case.kind == kind]
        compilers = [name for name in _compilers(outcomes) if name != "source"]
        lines += [f"### {kind.capitalize()}: {len(chosen)} passes", ""]
        header = ["pass", "what it does", "known from", "source rules", *compilers]
        if kind == "honest":
            header.remove("known from")
        lines += [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
        for case, results in chosen:
            cells = [f"`{case.name}`", case.trick, case.known_from, said(results.get("source"))]
            if kind == "honest":
                del cells[2]
            cells += [said(results.get(compiler)) for compiler in compilers]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        lines.append("")
    return "\n".join([summary(outcomes), "", *lines]).rstrip() + "\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many were as expected, in one paragraph."""
    hostile = [(case, results) for case, results in rows(outcomes) if case.kind == "hostile"]
    honest = [(case, results) for case, results in rows(outcomes) if case.kind == "honest"]
    without = sum(
        1 for _, results in hostile if _run(results) and all(o.verdict != "correct" for o in _run(results))
    )
    by_source = sum(
        1 for _, results in hostile if results.get("source") and results["source"].verdict == "rejected"
    )
    touched = sum(1 for _, results in honest if any(not o.as_expected for o in results.values()))
    unexpected = sum(1 for outcome in outcomes if not outcome.as_expected)
    words = (
        f"{len(hostile)} hostile passes: {by_source} break a source rule",
        f"{without} are caught with the source rules off.",
    )
    return (
        f"{', '.join(words)} {len(honest)} honest look-alikes: {touched} touched. "
        f"Outcomes other than expected: {unexpected}."
    )


def _run(results: dict[str, Outcome]) -> list[Outcome]:
    return [outcome for compiler, outcome in results.items() if compiler != "source"]


def _compilers(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(outcome.compiler for outcome in outcomes))
