"""Null baselines: how right would an answer be that computes nothing?"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from pass_bench.score.tolerance import LEVELS
from pass_bench.verify.compare import compare_tensors

SAMPLE = 4096


def weak_at(expected: Sequence[object], inputs: Sequence[object]) -> int | None:
    """Return the smallest t at which zeros, the mean or an input passed through passes for every output.

    `expected` are eager's outputs followed by the changed inputs; `inputs` are the inputs before the run.
    The best of the three is taken output by output. None: not even at the loosest t.
    """
    levels: list[int] = []
    for value in expected:
        if not isinstance(value, torch.Tensor):
            continue
        best = _best(value, inputs)
        if best is None:
            return None
        levels.append(best)
    return max(levels, default=None)


def _best(expected: torch.Tensor, inputs: Sequence[object]) -> int | None:
    candidates = [torch.zeros_like(expected)]
    if expected.is_floating_point() and expected.numel():
        mean = expected.double().mean()
        candidates.append(torch.full_like(expected, float(mean)))
    passed = [
        value
        for value in inputs
        if isinstance(value, torch.Tensor) and value.dtype == expected.dtype and value.shape == expected.shape
    ]
    step = max(1, expected.numel() // SAMPLE)
    some = expected.reshape(-1)[::step]
    best: int | None = None
    for value in candidates + passed:
        if step > 1:  # the whole can only be worse than some elements of it
            level = compare_tensors(value.reshape(-1)[::step], some).passes_from
            if level is None or (best is not None and level >= best):
                continue
        level = compare_tensors(value, expected).passes_from
        if level is not None and (best is None or level < best):
            best = level
    return best


def weaker(one: int | None, other: int | None) -> int | None:
    """Combine two draws: a null answer must pass on both, so the larger t counts."""
    if one is None or other is None:
        return None
    return max(one, other, key=LEVELS.index)
