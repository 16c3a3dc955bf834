"""Reference-style logs: reading real ones, and reading back our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pass_bench.results.log_reader import read_log
from pass_bench.score import ScoreSettings, aggregated_score, es_of_t, s_of_t


def test_reference_log_reads_to_1e_6(shared_dir: Path) -> None:
    outcomes = [graph.outcome for graph in read_log(shared_dir / "vectors" / "reference_validation.log")]
    expected = json.loads((shared_dir / "vectors" / "reference_validation.expected.json").read_text())
    assert len(outcomes) == expected["graphs"]
    settings = ScoreSettings(expected["p"], expected["b"], expected["interpretation"])
    for t in settings.levels:
        assert es_of_t(outcomes, t, settings) == pytest.approx(expected["ES"][str(t)], rel=1e-6)
        assert s_of_t(outcomes, t, settings) == pytest.approx(expected["S"][str(t)], rel=1e-6)
    assert aggregated_score(outcomes, settings) == pytest.approx(expected["aggregated"], rel=1e-6)
