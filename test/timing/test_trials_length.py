"""How many trials are taken next beside a GPU: what the rule wants, as far as there is time."""

from __future__ import annotations

import pytest

from pass_bench.results.records import EvalSettings
from pass_bench.worker.trials import LONG_S, Trials


def next_trials(device: str, taken: int, spent_s: float) -> int:
    trials = Trials(lambda _: pytest.fail("not asked"), EvalSettings(trials=100), device, (), False)
    trials.spent_s = spent_s
    return trials._next(trials._rule(), taken)


def test_the_trials_asked_for_are_always_taken() -> None:
    assert next_trials("cuda", 0, 0.0) == 100


def test_more_double_while_there_is_time() -> None:
    assert next_trials("cuda", 100, LONG_S["cuda"] / 10) == 100
    assert next_trials("cuda", 200, LONG_S["cuda"] / 10) == 200


def test_the_last_ones_fill_the_time() -> None:
    assert next_trials("cuda", 200, LONG_S["cuda"] / 1.5) == 100  # half of what was taken still fits
    assert next_trials("cuda", 200, LONG_S["cuda"]) == 0
    assert next_trials("cuda", 200, LONG_S["cuda"] / 1.05) == 0  # too few to be worth a look


def test_a_core_is_given_eight_times_as_many() -> None:
    assert next_trials("cpu", 400, 10.0) == 400
    assert next_trials("cpu", 800, 10.0) == 0
