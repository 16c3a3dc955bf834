"""From outcomes to S(t), ES(t) and the aggregated score. No torch."""

from pass_bench.score.aggregate import DEFAULT_WEIGHTS, aggregated_score, chosen_weights
from pass_bench.score.es import ClosedForm, ScoreSettings, closed_form, es_of_t, geometric_mean, s_of_t
from pass_bench.score.outcome import ErrorClass, Outcome, outcome, outcome_of
from pass_bench.score.tolerance import BASELINE_T, LEVELS, atol_rtol, tolerance_key

__all__ = [
    "BASELINE_T",
    "DEFAULT_WEIGHTS",
    "LEVELS",
    "ClosedForm",
    "ErrorClass",
    "Outcome",
    "ScoreSettings",
    "aggregated_score",
    "atol_rtol",
    "chosen_weights",
    "closed_form",
    "es_of_t",
    "geometric_mean",
    "outcome",
    "outcome_of",
    "s_of_t",
    "tolerance_key",
]
