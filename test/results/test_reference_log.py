"""Reference-style logs: reading real ones, and reading back our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest

from pass_bench.errors import BadInput
from pass_bench.results.records import (
    Comparison,
    GraphResult,
    PassReport,
    RegimeReport,
    TensorReport,
    TimingStats,
)
from pass_bench.results.reference_log import log_lines, parse_log, read_log
from pass_bench.results.verdict import Verdict
from pass_bench.score import ScoreSettings, aggregated_score, es_of_t, s_of_t
from pass_bench.score.outcome import ErrorClass, outcome_of


def test_reference_log_reads_to_1e_6(shared_dir: Path) -> None:
    outcomes = [graph.outcome for graph in read_log(shared_dir / "vectors" / "reference_validation.log")]
    expected = json.loads((shared_dir / "vectors" / "reference_validation.expected.json").read_text())
    assert len(outcomes) == expected["graphs"]
    settings = ScoreSettings(expected["p"], expected["b"], expected["interpretation"])
    for t in settings.levels:
        assert es_of_t(outcomes, t, settings) == pytest.approx(expected["ES"][str(t)], rel=1e-6)
        assert s_of_t(outcomes, t, settings) == pytest.approx(expected["S"][str(t)], rel=1e-6)
    assert aggregated_score(outcomes, settings) == pytest.approx(expected["aggregated"], rel=1e-6)


def _tensor(where: str, passes_from: int | None, dtype: str = "float32", **fields: object) -> TensorReport:
    basic = {"where": where, "dtype": dtype, "compiled_dtype": dtype, "shape": (2,), "max_diff": 0.5}
    return TensorReport.model_validate({**basic, "passes_from": passes_from, **fields})


def _result(verdict: Verdict, *tensors: TensorReport, **fields: object) -> GraphResult:
    levels = [tensor.passes_from for tensor in tensors]
    known = [level for level in levels if level is not None]
    stats = TimingStats(trials=9, median_us=1500.0, q25_us=1400.0, q75_us=1600.0, min_us=1300.0)
    basic = {
        "sample": "s",
        "graph": "graphs/lib/model_0",
        "index": 0,
        "compiler": "pass_mgr",
        "device": "cuda",
        "device_name": "H100",
        "verdict": verdict,
        "regimes": (RegimeReport(regime="recorded", seed=123, tensors=tensors),),
        "passes_from": max(known) if known and len(known) == len(levels) else None,
        "e2e": Comparison(eager=stats, compiled=stats, speedup=1.234567, low=1.2, high=1.3),
        "passes": (
            PassReport(name="A", matched=2, replaced=2),
            PassReport(name="B", matched=0, replaced=0),
            PassReport(name="C", matched=0, replaced=0, skipped="DEVICES"),
        ),
    }
    return GraphResult.model_validate({**basic, **fields})


def test_log_lines_of_a_correct_graph() -> None:
    lines = log_lines(
        _result(Verdict.CORRECT, _tensor("output[0]", -6), _tensor("output[1]", -10, "int64", max_diff=0)),
        prompt="P",
        path="/x/model_0",
        warmup=3,
        trials=9,
    )
    assert lines[0] == "P [Processing] /x/model_0"
    assert "P [Config] compiler: pass_mgr" in lines and "P [Config] hardware: H100" in lines
    assert "[PassMgrBackend] Loaded 2 passes: ['A', 'B']" in lines
    assert "[PassMgrBackend] Applied 2 replacements with A." in lines
    assert "[PassMgrBackend] Pass B failed to match." in lines
    assert "Has Any pass matched? True" in lines
    assert "P [Datatype][eager]: float32 int64" in lines
    assert "P [DataType] eager:['float32', 'int64'] compiled:['float32', 'int64'] match:True" in lines
    assert "P [Correctness][equal]: 0 1" in lines
    assert "P [Correctness][all_close_atol_1.00E-05_rtol_1.30E-06]: 1 1" in lines
    assert "P [Correctness][all_close_atol_1.00E-07_rtol_5.75E-09]: 0 1" in lines
    assert "P [Correctness][max_diff]: 0.5 0.0" in lines
    assert "P [Result] status: success" in lines
    performance = next(line for line in lines if "[Performance][eager]" in line)
    assert json.loads(performance.split(": ", 1)[1])["e2e"] == {
        "min": 1.3,
        "median": 1.5,
        "q25": 1.4,
        "q75": 1.6,
    }
    assert "P [Speedup][e2e]: 1.23457" in lines


@pytest.mark.parametrize("verdict", list(Verdict))
def test_own_logs_read_back(verdict: Verdict) -> None:
    level = {Verdict.CORRECT: -7, Verdict.ACCURACY: -2}.get(verdict)
    written = _result(verdict, _tensor("output[0]", level), reason="why\nnot")
    text = ["noise [Result] status: failed", *log_lines(written), "[Speedup][e2e]: 99", "[Processing] forged"]
    (read,) = parse_log(text)
    assert read.path == "graphs/lib/model_0"
    assert read.outcome.verdict is verdict
    assert read.outcome.passes_from == level
    assert read.outcome.speedup == 1.23457


@pytest.mark.parametrize(
    ("regimes", "tolerated_from"),
    [
        ([_tensor("output[0]", None, max_diff=0.0, nonfinite=True)], 3),
        ([_tensor("output[0]", None, "complex64", max_diff=0.0, nonfinite=True)], 3),
        ([_tensor("output[0]", -10), _tensor("output[0]", None, max_diff=0.0, nonfinite=True)], 3),
        ([_tensor("output[0]", None, max_diff=9.0), _tensor("output[0]", None, nonfinite=True)], 3),
        ([_tensor("output[0]", None)], 1),
        ([_tensor("output[0]", None, "int64")], 1),
        ([_tensor("output[0]", None, "float", max_diff=None)], 1),  # a plain value, of which none is known
    ],
)
def test_a_log_is_scored_like_its_record(regimes: list[TensorReport], tolerated_from: int) -> None:
    names: list[Literal["recorded", "random"]] = ["recorded", "random"]
    reports = tuple(
        RegimeReport(regime=name, seed=1, tensors=(tensor,), passes_from=tensor.passes_from)
        for name, tensor in zip(names, regimes, strict=False)
    )
    record = _result(
        Verdict.ACCURACY,
        regimes=reports,
        passes_from=None,
        nonfinite=any(tensor.nonfinite for tensor in regimes),
    )
    (read,) = parse_log(log_lines(record))
    assert read.outcome.error_class is outcome_of(record).error_class
    settings = ScoreSettings()
    for t in settings.levels:
        expected = 1 if t >= tolerated_from else 0.1
        assert es_of_t([read.outcome], t, settings) == pytest.approx(expected)
        assert es_of_t([outcome_of(record)], t, settings) == pytest.approx(expected)


def test_a_difference_that_is_inf_is_not_finite_in_other_peoples_logs() -> None:
    block = ["P [Processing] a", "P [Datatype][eager]: float16", "P [Result] status: success"]
    for value, kind in (
        ("inf", ErrorClass.MISMATCH),
        ("7.5", ErrorClass.ACCURACY),
        ("?", ErrorClass.ACCURACY),
    ):
        (read,) = parse_log([*block, f"P [Correctness][max_diff]: {value}"])
        assert read.outcome.error_class is kind


def test_a_pass_whose_search_was_cut_short_was_loaded_and_matched() -> None:
    stopped = "the search stopped after 200000 steps or 20000 matches"
    passes = (
        PassReport(name="A", matched=20000, replaced=9, skipped=stopped),
        PassReport(name="B", matched=0, replaced=0, skipped="DEVICES"),
    )
    lines = log_lines(_result(Verdict.CORRECT, _tensor("output[0]", -6), passes=passes))
    assert "[PassMgrBackend] Loaded 1 passes: ['A']" in lines
    assert "[PassMgrBackend] Applied 9 replacements with A." in lines
    assert "Has Any pass matched? True" in lines
    (read,) = parse_log(lines)
    assert read.outcome.verdict is Verdict.CORRECT


def test_worse_regime_is_logged() -> None:
    good, bad = _tensor("output[0]", -10, max_diff=0.0), _tensor("output[0]", None)
    result = _result(Verdict.ACCURACY, good)
    random = RegimeReport(regime="random", seed=1, tensors=(bad,))
    lines = log_lines(result.model_copy(update={"regimes": (*result.regimes, random)}))
    assert any(line.endswith("[Correctness][all_close_atol_1.00E-05_rtol_1.30E-06]: 0") for line in lines)


def test_interpreted_times_are_not_logged_as_speeds() -> None:
    text = "\n".join(log_lines(_result(Verdict.CORRECT, _tensor("output[0]", -7), interpreted=True)))
    assert "[Speedup]" not in text and "not a speed" in text


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (["[Result] status: failed"], Verdict.RUNTIME_FAIL),
        (
            ["[DataType] eager:['a'] compiled:['b'] match:False", "[Result] status: failed"],
            Verdict.TYPE_MISMATCH,
        ),
        (["[Fail due to compile error.]", "[Result] status: failed"], Verdict.COMPILE_FAIL),
        (["[Fail due to eager model error.]", "[Result] status: failed"], Verdict.EAGER_FAIL),
        ([], Verdict.RUNTIME_FAIL),
    ],
)
def test_failures_of_other_peoples_logs(lines: list[str], verdict: Verdict) -> None:
    (graph,) = parse_log(["P [Processing] a", *(f"P {line}" for line in lines)])
    assert graph.outcome.verdict is verdict


def test_no_match_said_after_the_last_graph_is_said_of_all() -> None:
    block = ["P [Processing] a", "P [Result] status: success"]
    graphs = parse_log([*block, *block, "Has Any pass matched? [False]"])
    assert [graph.outcome.verdict for graph in graphs] == [Verdict.PASS_MISS] * 2


def test_a_log_without_graphs_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"\xff\xfe nothing")
    with pytest.raises(BadInput, match="no graph"):
        read_log(tmp_path / "a.log")
    with pytest.raises(BadInput, match="no such file"):
        read_log(tmp_path / "b.log")
