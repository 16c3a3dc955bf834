"""Scores against values made with an independent implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pass_bench.results.verdict import Verdict
from pass_bench.score import (
    Outcome,
    ScoreSettings,
    aggregated_score,
    closed_form,
    es_of_t,
    outcome,
    s_of_t,
)


def _outcome(graph: dict[str, Any]) -> Outcome:
    passes = None if None in graph["min_t"] else max(graph["min_t"])
    return outcome(Verdict(graph["status"]), passes, graph["speedup"])


@pytest.mark.parametrize("case", range(12))
def test_vectors_hold_to_1e_9(shared_dir: Path, case: int) -> None:
    vectors = json.loads((shared_dir / "vectors" / "es_vectors.json").read_text())["cases"][case]
    outcomes = [_outcome(graph) for graph in vectors["graphs"]]
    assert len(vectors["expected"]) == 8
    for expected in vectors["expected"]:
        settings = ScoreSettings(expected["p"], expected["b"], expected["interpretation"])
        assert [str(t) for t in settings.levels] == list(expected["ES"])
        for t in settings.levels:
            assert es_of_t(outcomes, t, settings) == pytest.approx(expected["ES"][str(t)], rel=1e-9)
            assert closed_form(outcomes, t, settings).value == pytest.approx(expected["ES"][str(t)], rel=1e-9)
            assert s_of_t(outcomes, t, settings) == pytest.approx(expected["S"][str(t)], rel=1e-9)
        if settings.interpretation == "default":
            assert aggregated_score(outcomes, settings) == pytest.approx(expected["aggregated"], rel=1e-9)
