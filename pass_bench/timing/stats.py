"""Medians, quartiles, and the interval of a ratio of medians; numpy only."""

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


def block_length(eager: np.ndarray, compiled: np.ndarray) -> int:
    """Return how many neighbouring rounds to keep together when resampling.

    Rounds are correlated (frequency changes, a neighbour that works for a second). The rule is that of
    Politis and White (2004) for the circular block bootstrap, b = (2 G^2 / D)^(1/3) n^(1/3), applied to
    whether a time or a ratio lies above its median, which is what medians depend on; at most n / 4.
    """
    count = len(eager)
    if count < 16:
        return 1
    longest = 1
    for series in (_sign(eager / compiled), _sign(eager), _sign(compiled)):
        longest = max(longest, _politis_white(series))
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
    """Return about how wide the 95 % interval of the ratio is, relative to it, were all rounds independent.

    Twice 1.96 standard errors of the two medians, read off the ranks one standard error to each side.
    """
    squares = 0.0
    for times in (eager, compiled):
        share = 0.5 / len(times) ** 0.5
        low, middle, high = np.quantile(np.asarray(times, dtype=np.float64), [0.5 - share, 0.5, 0.5 + share])
        squares += float((high - low) / 2 / middle) ** 2
    return 2 * 1.96 * float(squares**0.5)


def ratio_interval(
    eager: Sequence[int], compiled: Sequence[int], *, level: float = LEVEL, seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of median(eager) / median(compiled).

    Rounds are resampled as pairs, in circular blocks, since what slows one arm of a round slows the other;
    the interval is the percentile one, in the logarithm, widened by sqrt(n / (n - 1)).
    """
    one, other = np.asarray(eager, dtype=np.float64), np.asarray(compiled, dtype=np.float64)
    count = len(one)
    estimate = float(np.median(one) / np.median(other))
    if count < 3:
        return 0.0, float("inf")
    length = block_length(one, other)
    random = np.random.default_rng(seed)
    blocks = -(-count // length)
    logs = np.empty(RESAMPLES)
    step = max(1, int(2_000_000 // (blocks * length)))
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        starts = random.integers(0, count, size=(rows, blocks))
        index = (starts[:, :, None] + np.arange(length)[None, None, :]).reshape(rows, -1)[:, :count] % count
        logs[start : start + rows] = np.log(np.median(one[index], axis=1) / np.median(other[index], axis=1))
    centre = np.log(estimate)
    tail = (1 - level) / 2
    low, high = np.quantile(logs, [tail, 1 - tail])
    stretch = np.sqrt(count / (count - 1))
    return (
        float(np.exp(centre + min(low - centre, 0.0) * stretch)),
        float(np.exp(centre + max(high - centre, 0.0) * stretch)),
    )


def compare(
    eager: Sequence[int], compiled: Sequence[int], *, seed: int = 0, level: float = LEVEL
) -> Comparison:
    """Summarise interleaved trials (nanoseconds, index = round); `noisy` if the interval is over 2 % wide."""
    low, high = ratio_interval(eager, compiled, level=level, seed=seed)
    one, other = timing_stats(eager), timing_stats(compiled)
    speedup = one.median_us / other.median_us
    noisy = not (high - low) < TARGET_WIDTH * speedup
    return Comparison(eager=one, compiled=other, speedup=speedup, low=low, high=min(high, 1e9), noisy=noisy)
