"""Inputs of a graph under one of the regimes."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from pass_bench.data.metas import drawn_from_range
from pass_bench.data.records import Graph, TensorMeta
from pass_bench.inputs.layout import strided_copy
from pass_bench.inputs.replay import REPLAY_SEED, clamp, dtype_of, replay
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
    recorded = replay(graph.metas.values(), seed if regime == "recorded" else REPLAY_SEED)
    inputs: list[torch.Tensor | int] = []
    for argument in graph.arguments:
        tensor = recorded[argument.name]
        if argument.kind == "symint":
            inputs.append(int(tensor.item()))
            continue
        if regime != "recorded":
            meta = graph.metas[argument.name]
            generator = np.random.default_rng([seed, zlib.crc32(meta.name.encode())])
            tensor = _redrawn(meta, tensor, generator, spread=regime == "special")
        inputs.append(strided_copy(tensor, device) if regime == "special" else tensor.to(device))
    return inputs


def _redrawn(
    meta: TensorMeta, recorded: torch.Tensor, generator: np.random.Generator, spread: bool
) -> torch.Tensor:
    """Other values of the same domain; `spread` varies their magnitudes."""
    dtype = dtype_of(meta)
    if drawn_from_range(meta):
        low, high = int(meta.min_val or 0), int(meta.max_val or 0)
        drawn = generator.integers(low, high, size=meta.shape, endpoint=True)
        return torch.from_numpy(np.array(drawn)).to(dtype)
    if meta.data is not None or meta.shape == ():
        return recorded
    if dtype is torch.bool:
        return torch.from_numpy(np.array(generator.random(meta.shape) > 0.5))
    if not (dtype.is_floating_point or dtype.is_complex):
        return recorded  # an integer without bounds: nothing says what else would be valid
    values = _draw(meta, generator)
    if spread:
        values *= 10.0 ** generator.uniform(-3, 2, size=meta.shape)
    values = _same_sign(meta, recorded, values)
    if dtype.is_complex:
        values = values + 1j * _draw(meta, generator)
        return torch.from_numpy(np.array(values)).to(dtype)
    largest = torch.finfo(dtype).max
    tensor = torch.from_numpy(np.clip(values, -largest, largest)).to(dtype)
    return _within(meta, tensor, generator)


def _draw(meta: TensorMeta, generator: np.random.Generator) -> np.ndarray:
    """Normal values with the recorded mean and spread, or around the constant where there is no spread."""
    mean = meta.mean if meta.mean is not None and np.isfinite(meta.mean) else 0.0
    std = meta.std if meta.std is not None and np.isfinite(meta.std) else 0.1
    if std == 0 and abs(mean) >= _SENTINEL:
        return np.full(meta.shape, mean)
    if std == 0 and mean != 0:
        return mean * generator.uniform(0.5, 1.5, size=meta.shape)
    if std == 0:
        std = 0.1
    elif abs(mean) + std >= _SENTINEL:
        std *= 0.2
    return generator.standard_normal(meta.shape) * std + mean


def _same_sign(meta: TensorMeta, recorded: torch.Tensor, values: np.ndarray) -> np.ndarray:
    """Mirror values to the side on which all recorded values lie; zeros alone say nothing."""
    if recorded.dtype.is_complex or recorded.numel() == 0:
        return values
    low, high = recorded.float().min().item(), recorded.float().max().item()
    if (meta.min_val is not None and meta.min_val >= 0) or (low >= 0 and high > 0):
        return np.abs(values)
    if (meta.max_val is not None and meta.max_val <= 0) or (high <= 0 and low < 0):
        return -np.abs(values)
    return values


def _within(meta: TensorMeta, tensor: torch.Tensor, generator: np.random.Generator) -> torch.Tensor:
    """Keep to the bounds; between two of them, draw what falls outside anew: nothing piles up there."""
    low, high = meta.min_val, meta.max_val
    if low is not None and high is not None and np.isfinite([low, high]).all():
        anew = torch.from_numpy(np.array(generator.uniform(low, high, size=meta.shape))).to(tensor.dtype)
        outside = (tensor.float() < low) | (tensor.float() > high)
        tensor = torch.where(outside, anew, tensor)
    return clamp(tensor, low, high)
