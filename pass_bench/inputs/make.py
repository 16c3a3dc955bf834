"""Inputs of a graph under one of the regimes."""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch

from pass_bench.data.metas import drawn_from_range
from pass_bench.data.records import COMPLEX_DTYPES, Graph, TensorMeta
from pass_bench.inputs.layout import strided_copy
from pass_bench.inputs.replay import REPLAY_SEED, clamp, dtype_of, replay, replay_one
from pass_bench.results.records import Regime

# A constant this large stands for "masked out"; other values in its place would be another computation.
_SENTINEL = 1e4


def draw_seeds(seed: int, count: int = 4) -> tuple[int, ...]:
    """Seeds for a first draw and its redraws, all different and unrelated to `REPLAY_SEED`."""
    words = np.random.SeedSequence([seed, 0x5EED]).generate_state(count, dtype=np.uint64)
    return tuple(int(word >> 1) for word in words)


def make_inputs(
    graph: Graph, regime: Regime = "recorded", seed: int = REPLAY_SEED, device: str | torch.device = "cpu"
) -> list[torch.Tensor | int]:
    """The arguments of a graph, in signature order, SymInts as ints.

    `recorded`: the reference's replay rules. `random`: same shapes and dtypes, other values of the same
    domain: literal data, scalars and SymInts as recorded, non-negative stays non-negative, integers within
    their bounds, constants spread out. `special`: as `random`, with magnitudes 1e-3 to 1e2 times as large,
    every tensor strided or transposed and starting at an odd element of its storage. Made on the CPU from
    `seed` alone, then moved, so that every device sees the same values.
    """
    if regime == "recorded":
        made = replay(graph.metas.values(), seed)
    else:
        as_recorded = replay(graph.metas.values()) if any(map(_needs_replay, graph.metas.values())) else {}
        made = {
            argument.name: _redrawn(
                graph.metas[argument.name], seed, as_recorded.get(argument.name), regime == "special"
            )
            for argument in graph.arguments
        }
    inputs: list[torch.Tensor | int] = []
    for argument in graph.arguments:
        tensor = made[argument.name]
        if argument.kind == "symint":
            inputs.append(int(tensor.item()))
        else:
            inputs.append(strided_copy(tensor, device) if regime == "special" else tensor.to(device))
    return inputs


def _is_real(meta: TensorMeta) -> bool:
    return meta.is_float or meta.dtype in COMPLEX_DTYPES


def _stays(meta: TensorMeta) -> bool:
    """Whether a tensor stands for itself: scalars, literals, integers of which no bounds are known."""
    if drawn_from_range(meta):
        return False
    return meta.data is not None or meta.shape == () or not (_is_real(meta) or meta.dtype == "bool")


def _needs_replay(meta: TensorMeta) -> bool:
    """Whether a tensor that stays can only be had by drawing all that come before it."""
    return _stays(meta) and meta.data is None and not (_is_real(meta) and meta.std == 0)


def _redrawn(meta: TensorMeta, seed: int, recorded: torch.Tensor | None, spread: bool) -> torch.Tensor:
    """Other values of the same domain; `spread` varies their magnitudes."""
    dtype = dtype_of(meta)
    generator = np.random.default_rng([seed, zlib.crc32(meta.name.encode())])
    if drawn_from_range(meta):
        low, high = int(meta.min_val or 0), int(meta.max_val or 0)
        drawn = generator.integers(low, high, size=meta.shape, endpoint=True)
        return torch.from_numpy(np.asarray(drawn)).to(dtype)
    if _stays(meta):
        return replay_one(meta, np.random.RandomState(REPLAY_SEED)) if recorded is None else recorded
    if dtype is torch.bool:
        return torch.from_numpy(generator.random(meta.shape, dtype=np.float32) > 0.5)
    values = _draw(meta, generator)
    if spread:
        np.ldexp(values, generator.integers(-10, 7, size=meta.shape, dtype=np.int8), out=values)
    if dtype.is_complex:
        return torch.complex(torch.from_numpy(values), torch.from_numpy(_draw(meta, generator))).to(dtype)
    _mirror(meta, values)
    largest = torch.finfo(dtype).max
    if _magnitude(meta) > largest / 1e4:
        np.clip(values, -largest, largest, out=values)
    return _within(meta, torch.from_numpy(values).to(dtype), generator)


def _statistics(meta: TensorMeta) -> tuple[float, float]:
    mean = meta.mean if meta.mean is not None and np.isfinite(meta.mean) else 0.0
    return mean, meta.std if meta.std is not None and np.isfinite(meta.std) else 0.1


def _magnitude(meta: TensorMeta) -> float:
    mean, std = _statistics(meta)
    return abs(mean) + std


def _draw(meta: TensorMeta, generator: np.random.Generator) -> np.ndarray:
    """Normal values with the recorded mean and spread, or around the constant where there is no spread."""
    dtype = np.float64 if meta.dtype in ("float64", "complex128") else np.float32
    mean, std = _statistics(meta)
    if std == 0 and abs(mean) >= _SENTINEL:
        return np.full(meta.shape, mean, dtype=dtype)
    if std == 0 and mean != 0:
        values = generator.random(meta.shape, dtype=dtype)
        values += 0.5
        values *= mean
        return values
    if std == 0:
        std = 0.1
    elif abs(mean) + std >= _SENTINEL:
        std *= 0.2
    values = generator.standard_normal(meta.shape, dtype=dtype)
    with np.errstate(over="ignore"):
        values *= std
        values += mean
    return values


def _mirror(meta: TensorMeta, values: np.ndarray) -> None:
    """Bring values to the side of zero on which the recorded ones lie.

    Without bounds that is where the extremes of that many recorded draws are to be expected. A variance is
    never negative, whatever its draws were.
    """
    mean, std = _statistics(meta)
    reach = 0.2 * std * math.sqrt(2 * math.log(max(meta.numel, 8)))
    low = meta.min_val if meta.min_val is not None else mean - reach
    if "running_var" in meta.name or "running_var" in (meta.original_name or ""):
        low = max(low, 0.0)
    high = meta.max_val if meta.max_val is not None else mean + reach
    if low >= 0 and high > 0:
        np.abs(values, out=values)
    elif high <= 0 and low < 0:
        np.negative(np.abs(values, out=values), out=values)


def _within(meta: TensorMeta, tensor: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Keep to the bounds; between two of them, draw what falls outside anew: nothing piles up there."""
    low, high = meta.min_val, meta.max_val
    if low is not None and high is not None and np.isfinite([low, high]).all():
        anew = torch.from_numpy(generator.random(meta.shape)) * (high - low) + low
        outside = (tensor.float() < low) | (tensor.float() > high)
        tensor = torch.where(outside, anew.to(tensor.dtype), tensor)
    return clamp(tensor, low, high)
