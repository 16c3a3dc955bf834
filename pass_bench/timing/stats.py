"""Medians, quartiles, and the interval of a speedup; numpy only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pass_bench.results.records import Comparison, TimingStats

RESAMPLES = 1000
LEVEL = 0.95
TARGET_WIDTH = 0.02


def timing_stats(nanoseconds: Sequence[int]) -> TimingStats:
    """Summarise the trials of one callable."""
    values = np.asarray(nanoseconds, dtype=np.float64) / 1000.0
    low, middle, high = np.percentile(values, [25, 50, 75])
    return TimingStats(
        trials=len(values),
        median_us=float(middle),
        q25_us=float(low),
        q75_us=float(high),
        min_us=float(values.min()),
        mean_us=float(values.mean()),
        std_us=float(values.std()),
        max_us=float(values.max()),
    )


def block_length(*series: np.ndarray) -> int:
    """Return how many neighbouring rounds to keep together when resampling.

    Rounds are correlated (frequency changes, a neighbour that works for a second). The rule is that of
    Politis and White (2004) for the circular block bootstrap, b = (2 G^2 / D)^(1/3) n^(1/3), applied to
    whether a value lies above its median, which is what medians depend on; the longest of the series counts,
    at most n / 4.
    """
    count = len(series[0])
    if count < 16:
        return 1
    longest = max(1, *(_politis_white(_sign(values)) for values in series))
    return min(longest, max(1, count // 4))


def _sign(values: np.ndarray) -> np.ndarray:
    return np.sign(values - np.median(values))


def _politis_white(series: np.ndarray) -> int:
    count = len(series)
    centred = series - series.mean()
    variance = float(centred @ centred) / count
    if variance == 0:
        return 1
    most = min(count // 3, int(np.ceil(np.sqrt(count))) + 5)
    correlation = np.array(
        [float(centred[: count - k] @ centred[k:]) / count / variance for k in range(most + 1)]
    )
    bound = 2 * np.sqrt(np.log10(count) / count)
    quiet_run = max(5, int(np.sqrt(np.log10(count))))
    cut = most
    for lag in range(1, most + 1):
        window = correlation[lag : lag + quiet_run]
        if np.all(np.abs(window) < bound):
            cut = lag - 1
            break
    if cut == 0:
        return 1
    reach = min(2 * cut, most)
    lags = np.arange(1, reach + 1)
    taper = np.where(lags / reach <= 0.5, 1.0, 2 * (1 - lags / reach))
    weighted = taper * correlation[1 : reach + 1]
    spectral = 1 + 2 * weighted.sum()
    if spectral <= 0:
        return 1
    slope = 2 * (weighted * lags).sum()
    return max(1, int(np.ceil((2 * slope**2 / (4 / 3 * spectral**2)) ** (1 / 3) * count ** (1 / 3))))


def rank_width(eager: Sequence[int], compiled: Sequence[int]) -> float:
    """Return about how wide the 95 % interval of the speedup is, relative to it, were all rounds independent.

    Twice 1.96 standard errors of the median ratio, read off the ranks one standard error to each side.
    """
    ratios = np.log(np.asarray(eager, dtype=np.float64) / np.asarray(compiled, dtype=np.float64))
    share = 0.5 / len(ratios) ** 0.5
    low, high = np.quantile(ratios, [0.5 - share, 0.5 + share])
    return 1.96 * float(high - low)


def speedup_interval(
    eager: Sequence[int],
    compiled: Sequence[int],
    *,
    level: float = LEVEL,
    seed: int = 0,
    in_turns: bool = True,
) -> tuple[float, float]:
    """Return the bootstrap interval of the speedup, as `compare` defines it.

    Rounds are resampled in circular blocks: those taken in turns as pairs, others on their own. The interval
    is the percentile one, in the logarithm, widened by sqrt(n / (n - 1)).
    """
    one, other = np.log(np.asarray(eager, dtype=np.float64)), np.log(np.asarray(compiled, dtype=np.float64))
    count = len(one)
    if count < 3:
        return 0.0, float("inf")
    random = np.random.default_rng(seed)
    if in_turns:
        centre = float(np.median(one - other))
        logs = _resampled_medians(one - other, block_length(one - other), random)
    else:
        centre = float(np.median(one) - np.median(other))
        length = block_length(one, other)
        logs = _resampled_medians(one, length, random) - _resampled_medians(other, length, random)
    tail = (1 - level) / 2
    low, high = np.quantile(logs, [tail, 1 - tail])
    stretch = np.sqrt(count / (count - 1))
    return (
        float(np.exp(centre + min(low - centre, 0.0) * stretch)),
        float(np.exp(centre + max(high - centre, 0.0) * stretch)),
    )


def _resampled_medians(values: np.ndarray, length: int, random: np.random.Generator) -> np.ndarray:
    """Return the medians of resamples made of circular blocks of that length."""
    count = len(values)
    blocks = -(-count // length)
    around = np.concatenate([values, values[: length - 1]])
    windows = np.lib.stride_tricks.sliding_window_view(around, length)
    medians = np.empty(RESAMPLES)
    step = max(1, int(1_000_000 // (blocks * length)))
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        starts = random.integers(0, count, size=(rows, blocks))
        drawn = windows[starts].reshape(rows, -1)[:, :count]
        medians[start : start + rows] = np.median(drawn, axis=1, overwrite_input=True)
    return medians


def compare(
    eager: Sequence[int],
    compiled: Sequence[int],
    *,
    seed: int = 0,
    level: float = LEVEL,
    in_turns: bool = True,
) -> Comparison:
    """Summarise trials (nanoseconds, index = round); `noisy` if the interval is over 2 % wide.

    Of trials taken in turns the speedup is the median, over the rounds, of eager's time by the compiled
    one's. A change of the clock or a neighbour changes both times of a round, and often for dozens of rounds:
    medians of each arm alone fall now into the one state and now into the other. Both `median_us` are freed
    of it alike: median geometric mean of a round, times and by the root of the speedup, so that they have it
    as their ratio. All other statistics are of the times as taken. Of trials taken one arm after the other
    the speedup is the ratio of plain medians.
    """
    low, high = speedup_interval(eager, compiled, level=level, seed=seed, in_turns=in_turns)
    one, other = timing_stats(eager), timing_stats(compiled)
    speedup = one.median_us / other.median_us
    if in_turns:
        first, second = np.asarray(eager, dtype=np.float64), np.asarray(compiled, dtype=np.float64)
        speedup = float(np.exp(np.median(np.log(first / second))))
        typical = float(np.median(np.sqrt(first * second))) / 1000.0
        one, other = (
            stats.model_copy(update={"median_us": typical * power, "plain_median_us": stats.median_us})
            for stats, power in ((one, speedup**0.5), (other, speedup**-0.5))
        )
    low, high = min(low, speedup), min(max(high, speedup), 1e9)  # exactly equal ratios end in rounding
    noisy = not (high - low) < TARGET_WIDTH * speedup
    return Comparison(eager=one, compiled=other, speedup=speedup, low=low, high=high, noisy=noisy)
