"""Trials in turns, and the interval of a speedup."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
import torch

from pass_bench.timing.clock import reseed
from pass_bench.timing.interleave import FreshInputs, Plan, clone_like, time_block
from pass_bench.timing.stats import block_length, compare, speedup_interval, timing_stats
from pass_bench.timing.stopping import StoppingRule

Draw = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def test_statistics_of_known_trials() -> None:
    stats = timing_stats([1000, 2000, 3000, 4000, 10_000])
    assert (stats.trials, stats.median_us, stats.q25_us, stats.q75_us) == (5, 3.0, 2.0, 4.0)
    assert (stats.min_us, stats.max_us, stats.mean_us) == (1.0, 10.0, 4.0)


def test_speedup_is_the_median_over_rounds_and_the_ratio_of_the_medians_shown() -> None:
    # Ratios of the rounds: 2, 3, 4; the machine is ten times slower in the second half of them.
    eager, compiled = [200, 300, 400, 2000, 3000, 4000], [100, 100, 100, 1000, 1000, 1000]
    result = compare(eager * 10, compiled * 10)
    assert result.speedup == pytest.approx(3.0)
    assert result.low <= 3.0 <= result.high
    assert result.eager.median_us / result.compiled.median_us == pytest.approx(3.0)
    # Geometric means of the rounds, in us: .141, .173, .2, 1.41, 1.73, 2; their median is (.2 + 1.414) / 2.
    typical = (0.2 + 2**0.5) / 2
    assert result.eager.median_us == pytest.approx(typical * 3**0.5)
    # Of the times as taken: .2, .3, .4, 2, 3, 4.
    assert (result.eager.min_us, result.eager.q25_us, result.eager.plain_median_us) == (0.2, 0.3, 1.2)


def test_one_arm_after_the_other_has_the_ratio_of_plain_medians() -> None:
    result = compare([200, 300, 400, 2000, 2100] * 8, [100, 100, 100, 1000, 1000] * 8, in_turns=False)
    assert result.speedup == pytest.approx(4.0)
    assert (result.eager.median_us, result.compiled.median_us) == (0.4, 0.1)
    assert result.eager.plain_median_us is None
    assert result.low <= 4.0 <= result.high


def test_states_of_the_machine_that_change_between_rounds_do_not_change_the_speedup() -> None:
    random = np.random.default_rng(5)
    state = np.repeat(random.choice([1.0, 1.7], 12), 20)
    eager, compiled = 3e5 * state * random.lognormal(0, 0.02, (2, 240))
    result = compare(list(eager), list(compiled))
    assert abs(result.speedup - 1) < 0.01 and result.high - result.low < 0.02
    plain = compare(list(eager), list(compiled), in_turns=False)
    assert plain.high - plain.low > 0.05


def test_few_rounds_have_no_interval_and_are_noisy() -> None:
    result = compare([100, 200], [100, 100])
    assert (result.low, result.noisy) == (0.0, True)


def test_noise_is_not_a_failure() -> None:
    random = np.random.default_rng(0)
    result = compare(list(random.integers(50, 5000, 40)), list(random.integers(50, 5000, 40)))
    assert result.noisy and result.speedup > 0 and result.high > result.low


def test_independent_rounds_need_no_blocks_and_correlated_ones_do() -> None:
    random = np.random.default_rng(3)
    assert block_length(random.lognormal(0, 0.1, 200), random.lognormal(0, 0.1, 200)) <= 4
    walk = np.exp(np.repeat(random.normal(0, 0.2, 10), 20))
    assert block_length(walk * random.lognormal(0, 0.01, 200), walk) >= 8


def test_the_interval_does_not_depend_on_drift_that_hits_both() -> None:
    drift = np.linspace(1, 3, 200)
    jitter = np.random.default_rng(1).lognormal(0, 0.01, (2, 200))
    low, high = speedup_interval(list(1e6 * drift * jitter[0]), list(1e6 * drift * jitter[1]))
    assert 0.995 < low <= 1 <= high < 1.005


def independent(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return random.lognormal(0, 0.05, count), random.lognormal(0, 0.05, count)


def heavy(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    return 1 + random.pareto(3, count) * 0.1, 1 + random.pareto(3, count) * 0.1


def correlated(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    states = np.zeros((2, count))
    for place in range(1, count):
        states[:, place] = 0.5 * states[:, place - 1] + random.normal(0, 0.03, 2)
    return np.exp(states[0]), np.exp(states[1])


def bimodal(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    state = 1 + 0.4 * (np.cumsum(random.random(count) < 0.02) % 2)
    return state * random.lognormal(0, 0.03, count), state * random.lognormal(0, 0.03, count)


def coverage(draw: Draw, runs: int, cap: int = 800) -> float:
    """Share of runs of the whole stopping rule whose last interval holds the true ratio, 1."""
    random = np.random.default_rng(7)
    hits = 0
    for seed in range(runs):
        rule = StoppingRule(first=cap // 8, cap=cap)
        eager, compiled = (arm * 1e5 for arm in draw(random, rule.cap))
        taken = 0
        while count := rule.next_block(taken):
            taken += count
            result = rule.judge(list(eager[:taken]), list(compiled[:taken]), seed=seed)
            if not result.noisy:
                break
        hits += result.low <= 1 <= result.high
    return hits / runs


@pytest.mark.parametrize("draw", [independent, heavy, correlated, bimodal])
def test_optional_stopping_keeps_the_coverage(draw: Draw) -> None:
    assert coverage(draw, 25, cap=400) >= 0.84  # 25 runs at 95 %: at most 4 misses with probability 0.993


@pytest.mark.full
@pytest.mark.parametrize("draw", [independent, heavy, correlated, bimodal])
def test_optional_stopping_keeps_the_coverage_in_many_runs(draw: Draw) -> None:
    assert coverage(draw, 400) >= 0.925


def test_the_rule_doubles_up_to_its_cap() -> None:
    rule = StoppingRule(first=100, cap=500)
    blocks, taken = [], 0
    while count := rule.next_block(taken):
        blocks.append(count)
        taken += count
    assert blocks == [100, 100, 200, 100]
    assert rule.looks == 4
    assert StoppingRule(first=10, cap=10).level == 0.95


def test_every_arm_runs_once_a_round_in_changing_order() -> None:
    order: list[str] = []
    calls = [lambda name=name: order.append(name) for name in "abc"]
    times = time_block(calls, [FreshInputs(())] * 3, Plan(trials=40, warmup=2, order_seed=5, seed=0))
    assert [len(arm) for arm in times] == [40, 40, 40]
    rounds = ["".join(order[start : start + 3]) for start in range(0, len(order), 3)]
    assert len(rounds) == 42 and {"".join(sorted(one)) for one in rounds} == {"abc"}
    assert len(set(rounds)) == 6
    assert all(nanoseconds >= 1 for arm in times for nanoseconds in arm)


def test_sequential_runs_the_last_arm_first() -> None:
    order: list[str] = []
    calls = [lambda name=name: order.append(name) for name in "ec"]
    time_block(calls, [FreshInputs(())] * 2, Plan(trials=3, warmup=1, order_seed=5, seed=0, sequential=True))
    assert "".join(order) == "cccceeee"


def test_the_budget_ends_a_block_but_not_before_the_least_rounds() -> None:
    plan = Plan(trials=50, warmup=50, order_seed=0, seed=0, budget_s=0.0, min_trials=3)
    calls: list[int] = []
    times = time_block([lambda: calls.append(1)], [FreshInputs(())], plan)
    assert len(times[0]) == 3 and len(calls) == 4  # one warm-up


def test_calls_see_a_seed_no_grad_and_no_garbage_collection() -> None:
    seen: list[tuple[float, bool, bool]] = []

    def call() -> None:
        seen.append((float(torch.rand(())), torch.is_grad_enabled(), gc.isenabled()))

    time_block([call], [FreshInputs(())], Plan(trials=3, warmup=0, order_seed=0, seed=1024))
    torch.manual_seed(1024)
    assert seen == [(float(torch.rand(())), False, False)] * 3
    assert gc.isenabled()


def test_only_what_is_changed_is_cloned() -> None:
    values = [torch.zeros(2), torch.zeros(2), 7]
    fresh = FreshInputs(values, frozenset({1}))
    first, second = fresh.take(), fresh.take()
    assert first[0] is values[0] and first[2] == 7
    assert first[1] is not values[1] and first[1] is not second[1]
    first[1].add_(1)  # type: ignore[attr-defined]
    assert torch.equal(fresh.take()[1], torch.zeros(2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        torch.arange(24.0).reshape(4, 6).t(),
        torch.arange(24.0)[5:][::3],
        torch.arange(4.0).expand(3, 4),
        torch.empty(0, 3),
        torch.tensor(3.0),
    ],
)
def test_clones_keep_values_strides_and_offset(value: torch.Tensor) -> None:
    copy = clone_like(value)
    assert torch.equal(copy, value) and copy.stride() == value.stride()
    assert copy.storage_offset() == value.storage_offset()
    assert value.numel() == 0 or copy.data_ptr() != value.data_ptr()


def test_seeding_is_what_torch_manual_seed_does() -> None:
    torch.manual_seed(7)
    drawn = torch.randn(9), torch.rand(3)
    torch.randn(1)  # an odd number of normal draws leaves one in the generator
    reseed(7)
    assert torch.equal(torch.randn(9), drawn[0]) and torch.equal(torch.rand(3), drawn[1])
