"""Every hostile pass gets its verdict, every honest look-alike is scored (table: docs/integrity.md)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pass_bench.guard.redteam.cases import Case, Expectation, read_case, read_cases
from pass_bench.guard.redteam.runner import COMPILERS, check_source, run_case, suite_evaluator
from pass_bench.guard.redteam.table import BEGIN, END

SUITE = Path(__file__).parent
CASES = read_cases(SUITE)
HOSTILE = [case for case in CASES if case.kind == "hostile"]
HONEST = [case for case in CASES if case.kind == "honest"]


def seeded_slice(compiler: str) -> list[Case]:
    """Some of each kind, others for each compiler."""
    chooser = random.Random(f"slice of {compiler}")
    hostile, honest = ([case for case in cases if not case.gpu] for cases in (HOSTILE, HONEST))
    return [*chooser.sample(hostile, 8), *chooser.sample(honest, 4)]


def test_the_suite_is_large_enough() -> None:
    assert len(HOSTILE) >= 45 and len(HONEST) >= 25
    assert sum(case.caught_without_rules for case in HOSTILE) >= 30
    assert all(case.known_from for case in HOSTILE)


def test_the_counts_in_the_documentation_agree_with_its_table() -> None:
    document = (SUITE.parents[1] / "docs" / "integrity.md").read_text()
    block = document.partition(BEGIN)[2].partition(END)[0]
    count, *others = [line for line in block.splitlines() if line and not line.startswith(("|", "###"))]
    assert others == []  # what is written by hand would be lost with the next run
    rows = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("| `")]
    hostile, honest = [row for row in rows if len(row) == 6], [row for row in rows if len(row) == 5]
    assert [row[0].strip("`") for row in hostile] == sorted(case.name for case in HOSTILE)
    assert [row[0].strip("`") for row in honest] == sorted(case.name for case in HONEST)
    caught = sum(not {"correct", "not run"} & set(row[4:]) for row in hostile)
    by_rule = sum(row[3].startswith("rejected") for row in hostile)
    assert count == (
        f"{len(hostile)} hostile passes: {by_rule} break a source rule, {caught} are caught with the source "
        f"rules off. {len(honest)} honest look-alikes: 0 touched. Outcomes other than expected: 0."
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_source_rules_name_what_they_should_and_nothing_else(case: Case) -> None:
    outcome = check_source(case)
    assert outcome.as_expected, f"{case.kind}: expected {case.rules}, found {outcome.rules}"


@pytest.mark.serial
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_slice_gets_its_verdicts(compiler: str) -> None:
    with suite_evaluator(compiler) as evaluator:
        outcomes = [run_case(case, evaluator) for case in seeded_slice(compiler)]
        # Some verdicts compare times: on a machine busy with other work a second look decides.
        outcomes = [o if o.as_expected else run_case(o.case, evaluator) for o in outcomes]
    odd = [
        f"{o.case.name}: {o.verdict} {o.rules}, expected {o.case.expected}"
        for o in outcomes
        if not o.as_expected
    ]
    assert odd == []


@pytest.mark.serial
@pytest.mark.full
@pytest.mark.timeout(5400)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_case_gets_its_verdict(compiler: str) -> None:
    with suite_evaluator(compiler) as evaluator:
        outcomes = [run_case(case, evaluator) for case in CASES if not case.gpu]
    odd = [
        f"{o.case.name}: {o.verdict} {o.rules}, expected {o.case.expected}"
        for o in outcomes
        if not o.as_expected
    ]
    assert odd == []


@pytest.mark.gpu
@pytest.mark.serial
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_gpu_cases_get_their_verdicts(compiler: str) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    with suite_evaluator(compiler, "cuda") as evaluator:
        outcomes = [run_case(case, evaluator) for case in CASES if case.gpu]
    odd = [
        f"{o.case.name}: {o.verdict} {o.rules}, expected {o.case.expected}"
        for o in outcomes
        if not o.as_expected
    ]
    assert odd == []


def test_an_expectation_is_met_by_its_verdict_and_one_of_its_rules() -> None:
    either = Expectation(("rejected", "accuracy"), ("patched", "clock"))
    assert either.met_by("rejected", ("clock", "flags")) and either.met_by("accuracy", ())
    assert not either.met_by("rejected", ("flags",)) and not either.met_by("correct", ())
    assert str(either) == "rejected (patched, clock) or accuracy"


def test_a_case_says_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "trick.py").write_text(
        '"""Does a\ntrick.\n\nKnown from: here\nRules: dunder, stream\nGraph: views\nNeeds: gpu\n'
        'Expected: rejected (patched) or timeout\n"""\n'
    )
    case = read_case(folder / "trick.py")
    assert (case.trick, case.known_from, case.rules) == ("Does a trick.", "here", ("dunder", "stream"))
    assert case.gpu and case.graph.name == "views" and case.caught_without_rules
    assert case.expected == Expectation(("rejected", "timeout"), ("patched",))
