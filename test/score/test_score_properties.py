"""Properties of S(t), ES(t) and AS, worked-out cases, and settings that are refused."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pass_bench.errors import BadInput
from pass_bench.results.records import Comparison, GraphResult, TimingStats
from pass_bench.results.verdict import Verdict
from pass_bench.score import (
    DEFAULT_WEIGHTS,
    ClosedForm,
    ScoreSettings,
    aggregated_score,
    atol_rtol,
    chosen_weights,
    closed_form,
    es_of_t,
    outcome,
    outcome_of,
    s_of_t,
    tolerance_key,
)
from pass_bench.score.summary import mean_score, summarize

SCORED = [verdict for verdict in Verdict if verdict.scored]
OUTCOMES = st.lists(
    st.builds(
        outcome,
        st.sampled_from(SCORED),
        st.one_of(st.none(), st.integers(-10, 5)),
        st.floats(0.01, 100),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)
SETTINGS = st.builds(
    ScoreSettings,
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([0.001, 0.1, 1.0]),
    st.sampled_from(["default", "mismatch_extended"]),
)


@settings(max_examples=200, deadline=None)
@given(OUTCOMES, SETTINGS)
def test_closed_form_agrees_with_the_graphs_one_by_one(outcomes: list, chosen: ScoreSettings) -> None:
    for t in chosen.levels:
        assert closed_form(outcomes, t, chosen).value == pytest.approx(
            es_of_t(outcomes, t, chosen), rel=1e-12
        )
        if t < 1:
            assert s_of_t(outcomes, t, chosen) == pytest.approx(es_of_t(outcomes, t, chosen), rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(OUTCOMES, SETTINGS)
def test_es_never_falls_from_t_1_on(outcomes: list, chosen: ScoreSettings) -> None:
    values = [es_of_t(outcomes, t, chosen) for t in chosen.levels if t >= 1]
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(values))


@settings(max_examples=100, deadline=None)
@given(OUTCOMES, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_as_lies_between_es(outcomes: list, random: object) -> None:
    shuffled = list(outcomes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    score = aggregated_score(outcomes)
    assert aggregated_score(shuffled) == pytest.approx(score, rel=1e-12)
    values = [es_of_t(outcomes, t) for t in ScoreSettings().levels]
    assert min(values) * (1 - 1e-12) <= score <= max(values) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(OUTCOMES)
def test_unscored_graphs_change_nothing(outcomes: list) -> None:
    ignored = [outcome(v) for v in Verdict if not v.scored]
    assert aggregated_score(outcomes + ignored) == aggregated_score(outcomes)


@pytest.mark.parametrize(
    ("verdict", "nonfinite", "default", "extended"),
    [
        (Verdict.ACCURACY, False, 1, 1),
        (Verdict.ACCURACY, True, 3, 2),
        (Verdict.SHAPE_MISMATCH, False, 3, 2),
        (Verdict.TYPE_MISMATCH, False, 3, 2),
        (Verdict.RUNTIME_FAIL, False, 3, 3),
        (Verdict.TIMEOUT, False, 3, 3),
        (Verdict.PASS_MISS, False, 3, 3),
        (Verdict.COMPILE_FAIL, False, 3, 4),
        (Verdict.EAGER_FAIL, False, None, None),
        (Verdict.REJECTED, False, None, None),
    ],
)
def test_from_which_t_an_error_is_tolerated(
    verdict: Verdict, nonfinite: bool, default: int | None, extended: int | None
) -> None:
    graph = [outcome(verdict, None, 2.0, nonfinite)]
    for name, start in (("default", default), ("mismatch_extended", extended)):
        chosen = ScoreSettings(interpretation=name)  # type: ignore[arg-type]
        for t in chosen.levels:
            expected = 1.0 if start is not None and t >= start else 0.1
            assert es_of_t(graph, t, chosen) == pytest.approx(expected), (name, t)


def test_s_is_not_frozen_where_es_is() -> None:
    graph = [outcome(Verdict.ACCURACY, 3, 2.0)]
    assert [round(s_of_t(graph, t), 6) for t in (0, 1, 2, 3, 4)] == [0.1, 0.1, 0.1, 2.0, 2.0]
    assert [round(es_of_t(graph, t), 6) for t in (0, 1, 2, 3, 4)] == [0.1, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("alpha", "beta", "correct", "slow", "value"),
    [
        (0.949, 0.825, 0.345, 0.618, 0.217),
        (1.030, 0.815, 0.882, 0.472, 0.783),
        (1.028, 0.815, 0.887, 0.473, 0.790),
        (1.342, 0.817, 0.930, 0.046, 1.118),
    ],
)
def test_published_inductor_table(
    alpha: float, beta: float, correct: float, slow: float, value: float
) -> None:
    form = ClosedForm(alpha, beta, correct, slow, gamma=0.1, penalty=0.0)
    assert form.value == pytest.approx(value, abs=0.002)


def test_published_inductor_es_3() -> None:
    form = ClosedForm(1.028, 0.815, 0.887, 0.473, gamma=1.0, penalty=0.0)
    assert form.value == pytest.approx(1.025, abs=0.002)


def test_as_worked_out_by_hand() -> None:
    always = [outcome(Verdict.CORRECT, -10, 3.0)]
    assert aggregated_score(always) == pytest.approx(3.0)
    from_minus_5 = [outcome(Verdict.CORRECT, -5, 3.0)]
    total = 5 * 0.001 + 3 + 0.8 + 0.64 + 0.512 + 0.4096 + 0.32768 + 0.262144 + 0.001
    assert sum(DEFAULT_WEIGHTS.values()) == pytest.approx(total)
    expected = 10 ** ((0.005 * math.log10(0.1) + (total - 0.005) * math.log10(3)) / total)
    assert aggregated_score(from_minus_5) == pytest.approx(expected, rel=1e-12)


def test_mismatch_extended_has_no_published_weight() -> None:
    with pytest.raises(BadInput, match="t = 5"):
        aggregated_score([outcome(Verdict.CORRECT, -10, 1.0)], ScoreSettings(0, 0.1, "mismatch_extended"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def get_weights():\n    return {t: 1 for t in range(-10, 5)}", {-10: 1.0, 4: 1.0}),
        ("def get_weights():\n    return {'-5': 2}", {-5: 2.0}),
        ("def get_weights():\n    return [0.5] * 15", {-10: 0.5, 4: 0.5}),
    ],
)
def test_custom_weights(tmp_path: Path, text: str, expected: dict[int, float]) -> None:
    file = tmp_path / "weights.py"
    file.write_text(text)
    weights = chosen_weights({"PASSNET_CUSTOM_WEIGHT_FUNC_PATH": str(file)})
    assert {t: weights[t] for t in expected} == expected
    assert chosen_weights({}) == DEFAULT_WEIGHTS


@pytest.mark.parametrize(
    "text", ["", "get_weights = 3", "def get_weights(): return 3", "def get_weights(): return {1: -1}", "x ="]
)
def test_bad_custom_weights(tmp_path: Path, text: str) -> None:
    file = tmp_path / "weights.py"
    file.write_text(text)
    with pytest.raises(BadInput):
        chosen_weights({"PASSNET_CUSTOM_WEIGHT_FUNC_PATH": str(file)})
    with pytest.raises(BadInput, match="no such file"):
        chosen_weights({"PASSNET_CUSTOM_WEIGHT_FUNC_PATH": str(tmp_path / "none.py")})


@pytest.mark.parametrize("bad", [(-1, 0.1), (math.nan, 0.1), (0, 0), (0, 2), (0, math.nan)])
def test_bad_score_settings(bad: tuple[float, float]) -> None:
    with pytest.raises(BadInput):
        ScoreSettings(*bad)


def test_tolerances_at_the_baseline_are_pytorchs() -> None:
    for dtype, rtol, atol in (
        ("float32", 1.3e-6, 1e-5),
        ("float16", 1e-3, 1e-5),
        ("bfloat16", 1.6e-2, 1e-5),
    ):
        assert atol_rtol(dtype, -5, rounded=True) == (atol, rtol)
        assert atol_rtol(dtype, -5)[1] == pytest.approx(rtol, rel=2e-3)
    assert atol_rtol("float64", -5) == pytest.approx((1e-7, 1e-7))
    assert atol_rtol("int64", 4) == atol_rtol("bool", 4) == (0.0, 0.0)
    assert tolerance_key("float32", -5) == "all_close_atol_1.00E-05_rtol_1.30E-06"


def _result(verdict: Verdict, speedup: float | None = None, **fields: object) -> GraphResult:
    stats = TimingStats(trials=100, median_us=10.0, q25_us=9.0, q75_us=11.0, min_us=8.0)
    e2e = None
    if speedup is not None:
        e2e = Comparison(eager=stats, compiled=stats, speedup=speedup, low=speedup, high=speedup)
    return GraphResult(
        sample="s", graph="g", index=0, compiler="pass_mgr", device="cpu", verdict=verdict, e2e=e2e, **fields
    )


def test_interpreted_graphs_count_for_correctness_and_not_for_speed() -> None:
    right = outcome_of(_result(Verdict.CORRECT, 0.001, passes_from=-8, interpreted=True))
    wrong = outcome_of(_result(Verdict.ACCURACY, 0.001, passes_from=2, interpreted=True))
    fast = outcome_of(_result(Verdict.CORRECT, 2.0, passes_from=-10))
    assert not right.scored and not wrong.scored and fast.scored
    summary = summarize([right, wrong, fast])
    assert (summary.judged, summary.correct, summary.scored) == (3, 2, 1)
    assert summary.score == pytest.approx(2.0) and summary.fast == {1.0: 1.0, 1.5: 1.0, 2.0: 1.0}
    assert summary.note == ("not in the score: 2 interpreted (verified, but the time is not a speed)")
    alone = summarize([right])
    assert alone.score is None and alone.es == {} and alone.correct_share == 1.0


def test_left_out_graphs_are_counted() -> None:
    outcomes = [
        outcome_of(_result(verdict)) for verdict in (Verdict.INFRA, Verdict.NOTHING_TO_CHECK, Verdict.TIMEOUT)
    ]
    summary = summarize(outcomes)
    assert summary.left_out == {"infra (ours to fix)": 1, "nothing_to_check": 1}
    assert (summary.graphs, summary.judged) == (3, 1)
    total = sum(DEFAULT_WEIGHTS.values())
    assert summary.score == pytest.approx(0.1 ** ((total - 0.262144 - 0.001) / total))


def test_a_correct_graph_without_a_time_is_left_out_aloud() -> None:
    untimed = outcome_of(_result(Verdict.CORRECT, passes_from=-10))
    assert summarize([untimed]).left_out == {"without a time": 1}


def test_fast_p_is_a_share_of_scored_graphs() -> None:
    graphs = [
        outcome(Verdict.CORRECT, -5, 1.6),
        outcome(Verdict.CORRECT, -5, 1.0),
        outcome(Verdict.CORRECT, -5, 0.5),
        outcome(Verdict.ACCURACY, -4, 9.0),
    ]
    summary = summarize(graphs)
    assert summary.fast == {1.0: 0.5, 1.5: 0.25, 2.0: 0.0}
    assert summary.correct_share == 0.75
    assert summary.speedup == pytest.approx((1.6 * 0.5) ** (1 / 3))


def test_mean_score_is_geometric_over_samples_that_have_one() -> None:
    assert mean_score([4.0, None, 1.0]) == pytest.approx(2.0)
    assert mean_score([None]) is None
