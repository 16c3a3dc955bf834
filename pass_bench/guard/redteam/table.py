"""The table of the suite: one row for each case, for people and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pass_bench.guard.redteam.cases import Case
from pass_bench.guard.redteam.faults import FaultOutcome
from pass_bench.guard.redteam.runner import Outcome
from pass_bench.results.records import EnvironmentRecord

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


def page(
    outcomes: Sequence[Outcome],
    faults: Sequence[FaultOutcome],
    environment: EnvironmentRecord | None,
    command: str,
    seconds: float,
) -> str:
    """A document of its own: on which machine, with which command, both tables, the faults."""
    lines = ["# The red-team suite", "", f"`{command}`, {seconds:.0f} s"]
    if environment is not None:
        machine = [f"{environment.device_name or environment.cpu}: torch {environment.torch}"]
        machine += [f"triton {environment.triton}"] if environment.triton else []
        machine += [f"driver {environment.driver}"] if environment.driver else []
        machine += [f"Python {environment.python}", f"commit {environment.commit[:7] or 'unknown'}"]
        lines[-1] += f" on {', '.join(machine)}."
    lines += [
        "",
        "Source rules were off. C++ kernels of cases that are written for the CPU ran as CUDA kernels.",
    ]
    if environment is None or environment.device == "cpu":
        lines[-1] = "Source rules were off."
    run = [outcome for outcome in outcomes if outcome.compiler != "source"]
    ran = {outcome.case.name for outcome in run}
    lines += ["", markdown([outcome for outcome in outcomes if outcome.case.name in ran]).rstrip()]
    if faults:
        lines += ["", fault_table(faults)]
    return "\n".join(lines) + "\n"


def fault_table(faults: Sequence[FaultOutcome]) -> str:
    """One row for each fault: the verdicts of three graphs, and the longest that a kill took."""
    lines = [f"### Faults: {len(faults)} passes that misbehave on the second of three graphs", ""]
    header = ["fault", "verdicts", "why, for the second", "longest kill, s", "whole, s"]
    lines += [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    for found in faults:
        verdicts = ", ".join(found.verdicts) or "none"
        cells = [found.fault.name, verdicts if found.as_expected else f"UNEXPECTED {verdicts}"]
        cells += [" ".join(found.reason.split())[:120], f"{found.gone_s:.2f}", f"{found.seconds:.1f}"]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


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
