"""The aggregated score: one number from ES(t) over all t."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pass_bench.errors import BadInput
from pass_bench.score.es import DEFAULT, ScoreSettings, es_of_t, scored
from pass_bench.score.outcome import Outcome

CUSTOM_WEIGHTS_VARIABLE = "PASSNET_CUSTOM_WEIGHT_FUNC_PATH"

DEFAULT_WEIGHTS: Mapping[int, float] = {
    **dict.fromkeys(range(-10, -5), 0.001),
    **dict.fromkeys(range(-5, -2), 1.0),
    **{t: 0.8 ** (t + 3) for t in range(-2, 4)},
    4: 0.001,
}


def aggregated_score(
    outcomes: Iterable[Outcome],
    settings: ScoreSettings = DEFAULT,
    weights: Mapping[int, float] | None = None,
) -> float:
    """AS = 10^(sum of w_t log10 ES(t)), the weights normalised to sum 1.

    Weights are the published ones unless given. Raises BadInput where a level has no weight, as t = 5 of
    `mismatch_extended` has none of the published ones, and ValueError if there is no graph to score.
    """
    weights = DEFAULT_WEIGHTS if weights is None else weights
    missing = [t for t in settings.levels if t not in weights]
    if missing:
        raise BadInput(
            f"no weight for t = {missing[0]}, which {settings.interpretation} needs",
            expected=f"weights through {CUSTOM_WEIGHTS_VARIABLE}",
        )
    kept = scored(outcomes)
    total = math.fsum(weights[t] for t in settings.levels)
    if not total > 0:
        raise BadInput("the weights sum to nothing", expected="numbers >= 0, at least one above 0")
    logs = (weights[t] * math.log10(es_of_t(kept, t, settings)) for t in settings.levels)
    return float(10 ** (math.fsum(logs) / total))


def chosen_weights(environment: Mapping[str, str] | None = None) -> Mapping[int, float]:
    """The weights in force: those of the file that PASSNET_CUSTOM_WEIGHT_FUNC_PATH names, or the published.

    The file is a Python module of the user's with `get_weights()`, which returns weights by t, or a sequence
    of them from t = -10 on. BadInput if it does not.
    """
    environment = os.environ if environment is None else environment
    file = environment.get(CUSTOM_WEIGHTS_VARIABLE)
    return load_weights(Path(file)) if file else DEFAULT_WEIGHTS


def load_weights(path: Path) -> Mapping[int, float]:
    """The weights that a module's `get_weights()` returns."""
    expected = "get_weights() that returns {t: weight}"
    if not path.is_file():
        raise BadInput("no such file", path=path, expected=f"a Python file with {expected}")
    spec = importlib.util.spec_from_file_location("passnet_custom_weights", path)
    if spec is None or spec.loader is None:
        raise BadInput("not a Python file", path=path, expected=expected)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found: Any = module.get_weights()
    except Exception as error:
        raise BadInput(f"{type(error).__name__}: {error}", path=path, expected=expected) from None
    if isinstance(found, Sequence) and not isinstance(found, str):
        found = dict(enumerate(found, start=-10))
    try:
        weights = {int(t): float(weight) for t, weight in found.items()}
    except (AttributeError, TypeError, ValueError):
        raise BadInput("get_weights() returned something else", path=path, expected=expected) from None
    if any(not (weight >= 0 and math.isfinite(weight)) for weight in weights.values()):
        raise BadInput("a weight is negative or not finite", path=path, expected=expected)
    return weights
