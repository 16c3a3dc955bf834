"""`passbench eval` and `doctor` at the command line: table, files, one-line errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pass_bench import cli
from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results.records import Comparison, GraphResult, PassReport, TimingStats
from pass_bench.results.store import read_results
from pass_bench.results.verdict import Verdict
from pass_bench.score.outcome import outcome_of
from pass_bench.score.summary import summarize
from pass_bench.worker import commands, doctor
from pass_bench.worker.commands import parse_regimes, print_table
from pass_bench.worker.doctor import Finding
from pass_bench.worker.output import OutputFolder
from pass_bench.worker.table import remarks, short_names


def stats(median_us: float) -> TimingStats:
    return TimingStats(trials=100, median_us=median_us, q25_us=median_us, q75_us=median_us, min_us=median_us)


def result(index: int, verdict: Verdict, **fields: object) -> GraphResult:
    known: dict[str, object] = {
        "sample": "s",
        "graph": f"graphs/a/g{index}",
        "index": index,
        "compiler": "pass_mgr_direct",
        "device": "cpu",
        "verdict": verdict,
    }
    return GraphResult.model_validate({**known, **fields})


FAST = Comparison(eager=stats(142), compiled=stats(77), speedup=1.844, low=1.82, high=1.86)


def test_the_table_says_what_happened(capsys: pytest.CaptureFixture[str]) -> None:
    placed = (PassReport(name="AddNorm", matched=2, replaced=2),)
    results = [
        result(0, Verdict.CORRECT, passes=placed, e2e=FAST, unrewritten=FAST, passes_from=-5, weak_at=-4),
        result(1, Verdict.PASS_MISS, reason="no pass matched; AddNorm: relu is not gelu"),
    ]
    print_table(results, summarize(map(outcome_of, results)), "pass_mgr_direct", "a CPU")
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if "g0" in line)
    assert row.split() == [
        "1", "g0", "AddNorm", "×2", "correct", "1.84×", "[1.82,", "1.86]", "142", "→", "77", "µs",
        "1.84×", "t", "=", "-5", "(weak)",
    ]  # fmt: skip
    assert "  2  no pass matched; AddNorm: relu is not gelu" in printed
    assert "1 of 2 graphs correct at t = -5, pass_mgr_direct on a CPU" in printed


def test_the_table_tells_a_search_cut_short_from_a_pass_left_out() -> None:
    passes = (
        PassReport(name="A", matched=3, replaced=2, skipped="the search stopped after 3 matches"),
        PassReport(name="B", matched=0, replaced=0, skipped="DEVICES has no 'cpu'"),
    )
    lines = [line.plain.strip() for line in remarks([result(0, Verdict.CORRECT, passes=passes)])]
    assert lines == ["A: the search stopped after 3 matches", "B skipped: DEVICES has no 'cpu'"]


def test_names_are_as_short_as_they_can_be() -> None:
    assert short_names(["a/x/g", "a/y/g"]) == ["x/g", "y/g"]
    assert short_names(["graphs/one", "graphs/two"]) == ["one", "two"]
    assert short_names(["g", "g"]) == ["g", "g"]


def test_results_log_and_score_are_written(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, out = make_sample(passes={}), tmp_path / "out"
    arguments = [
        "eval",
        str(sample),
        "--device",
        "cpu",
        "--compiler",
        "nope",
        "--trials",
        "3",
        "--warmup",
        "0",
    ]
    arguments += ["--time-budget", "0", "--out", str(out), "--json", "--sample-id", "7"]
    assert cli.run(cli.passbench, arguments) == 0
    document = json.loads(capsys.readouterr().out)
    (kept,) = read_results(out / "results.jsonl")
    assert GraphResult.model_validate(document["results"][0]) == kept
    assert kept.verdict is Verdict.CORRECT
    score = json.loads((out / "aggregated_score.json").read_text())
    assert (score["id"], score["correct"]) == (7, 1)
    assert score["score"] == document["score"]["score"]
    assert "[Result] status: success" in (out / "eval.log").read_text()
    assert cli.run(cli.passbench, arguments) == 2  # the folder holds results now
    assert "holds the results of another run" in capsys.readouterr().err
    assert (out / "aggregated_score.json").exists()


def test_an_output_folder_is_not_shared(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(BadInput, match="another run"):
        OutputFolder.check(tmp_path, replace=False)
    OutputFolder.check(tmp_path, replace=True)
    with pytest.raises(BadInput, match="not a folder"):
        OutputFolder.check(tmp_path / "results.jsonl", replace=True)


def test_regimes_are_checked() -> None:
    assert parse_regimes("recorded, special") == ("recorded", "special")
    with pytest.raises(BadInput, match="unknown regime 'sunny'"):
        parse_regimes("recorded,sunny")
    with pytest.raises(BadInput, match="cannot be left out"):
        parse_regimes("random")


def test_cuda_where_there_is_none_is_bad_input(
    make_sample: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pass_bench.worker.evaluate.cuda_may_exist", lambda: False)
    assert cli.run(cli.passbench, ["eval", str(make_sample()), "--device", "cuda"]) == 2
    assert capsys.readouterr().err == (
        "passbench: --device cuda: this machine has no CUDA device (expected cpu or auto here)\n"
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["eval"], "passbench eval: Missing argument 'SAMPLE'. (see passbench eval --help)"),
        (["evaluate"], "passbench: No such command 'evaluate'. (see passbench --help)"),
        (
            ["eval", "/nowhere"],
            "passbench: /nowhere: no such sample directory (expected a folder with a graph_list.txt)",
        ),
    ],
)
def test_usage_errors_are_one_line(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(cli.passbench, arguments) == 2
    assert capsys.readouterr().err == line + "\n"


def test_an_error_nobody_foresaw_is_one_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(commands, "evaluate_and_print", fail)
    assert cli.run(cli.passbench, ["eval", "x"]) == 3
    assert capsys.readouterr().err == "passbench: internal error: ZeroDivisionError: of ours\n"


def test_doctor_prints_a_line_each_and_fails_without_what_is_needed() -> None:
    lines: list[str] = []

    def look() -> Iterator[Finding]:
        yield Finding("python", "ok", "3.12", needed=True)
        yield Finding("docker", "note", "none")

    def look_again() -> Iterator[Finding]:
        yield Finding("torch", "missing", "not installed", needed=True)
        yield Finding("triton", "missing", "not installed")

    assert doctor.report(look, lines.append) == 0
    assert [line.split()[-2:] for line in lines] == [["python", "3.12"], ["docker", "none"]]
    with pytest.raises(HarnessFailure, match="without torch"):
        doctor.report(look_again, lines.append)


def test_doctor_looks_for_the_compiler_that_kernels_get(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    usual = doctor.compiler()
    assert usual.state == "ok"
    monkeypatch.setenv("CXX", "/no/such/compiler")
    fallen_back = doctor.compiler()
    assert fallen_back.state == "note"
    assert fallen_back.words == f"{usual.words}; $CXX is /no/such/compiler, which is not there"


@pytest.mark.parametrize(
    ("compiles", "why"),
    [
        ("echo 'x.cpp: fatal error: it is broken' >&2; exit 1", "it is broken"),
        ("while [ $# -gt 0 ]; do [ $1 = -o ] && echo nothing > $2; shift; done", "file too short"),
    ],
    ids=["that fails", "whose output does not load"],
)
def test_doctor_compiles_and_loads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiles: str, why: str
) -> None:
    checks = "for a; do [ $a = --version ] && echo 'cxx 1.0' && exit; [ $a = -fsyntax-only ] && exit; done"
    wrong = tmp_path / "wrong"
    wrong.write_text(f"#!/bin/sh\n{checks}\n{compiles}\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrong))
    found = doctor.compiler()
    assert found.state == "missing"
    assert why in found.words and "\n" not in found.words


def test_doctor_looks_at_this_machine() -> None:
    found = [*doctor.python_and_torch(), doctor.cpu(), doctor.compiler(), doctor.triton(), doctor.sandbox()]
    assert [finding.name for finding in found] == [
        "python",
        "torch",
        "cpu",
        "C++ compiler",
        "triton",
        "sandbox",
    ]
    assert found[0].state == found[1].state == "ok"
    assert all(finding.words and "\n" not in finding.words for finding in found)
