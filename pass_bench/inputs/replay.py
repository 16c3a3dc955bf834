"""The `recorded` regime: the reference's replay rules, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from pass_bench.data.metas import drawn_from_range
from pass_bench.data.records import TensorMeta
from pass_bench.errors import BadInput

REPLAY_SEED = 123
_LIMIT = 100.0


def dtype_of(meta: TensorMeta) -> torch.dtype:
    """The torch dtype of a meta; BadInput if this version of torch does not have it."""
    dtype = getattr(torch, meta.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise BadInput(f"{meta.name}: torch {torch.__version__} has no dtype {meta.dtype}")
    return dtype


def replay(metas: Iterable[TensorMeta], seed: int = REPLAY_SEED) -> dict[str, torch.Tensor]:
    """All tensors of a graph on the CPU, by name.

    They are drawn in alphabetical order of class name from one legacy numpy stream (the one behind
    `np.random.seed`), metas that no argument uses included, since each draw moves the stream on.
    """
    stream = np.random.RandomState(seed)
    ordered = sorted(metas, key=lambda meta: meta.class_name)
    return {meta.name: replay_one(meta, stream) for meta in ordered}


def replay_one(meta: TensorMeta, stream: np.random.RandomState) -> torch.Tensor:
    """One tensor by the published rules, in their order:

    1. integers with both bounds: uniform in them; 2. literal data; 3. bool: fair coin; 4. no std: 0.1, no
    mean: 0; 5. std 0: constant, else normal with a fifth of the std, in float64, then cast; 6. clamped to the
    bounds given. Where a float tensor is still not finite, the elements become normal * 0.01 and all are
    clamped to +-100.
    """
    dtype = dtype_of(meta)
    if drawn_from_range(meta):
        low, high = int(meta.min_val or 0), int(meta.max_val or 0)
        try:
            drawn = stream.randint(low, high + 1, size=meta.shape)
        except ValueError as error:
            raise BadInput(f"{meta.name}: range {low} to {high}: {error}") from None
        return _tensor(drawn, dtype)
    if meta.data is not None:
        return from_data(meta)
    if dtype is torch.bool:
        return _tensor(np.asarray(stream.rand(*meta.shape)) > 0.5, dtype)
    std = 0.1 if meta.std is None else meta.std
    mean = 0.0 if meta.mean is None else meta.mean
    if std == 0:
        values = np.full(meta.shape, mean, dtype=np.float64)
    else:
        values = np.asarray(stream.randn(*meta.shape))
        values = np.multiply(values, std, out=values)  # in place: weights can be large
        values = np.multiply(values, 0.2, out=values)
        values = np.add(values, mean, out=values)
    tensor = clamp(_tensor(values, dtype), meta.min_val, meta.max_val)
    if meta.is_float:
        finite = torch.isfinite(tensor.float())
        if not bool(finite.all()):
            small = _tensor(np.asarray(stream.randn(*meta.shape)) * 0.01, dtype)
            tensor = clamp(torch.where(finite, tensor, small), -_LIMIT, _LIMIT)
    return tensor


def from_data(meta: TensorMeta) -> torch.Tensor:
    """The literal data of a meta, in its shape and dtype; BadInput where a number does not fit."""
    dtype = dtype_of(meta)
    data = () if meta.data is None else meta.data
    if len(data) != meta.numel:
        raise BadInput(f"{meta.name}: data has {len(data)} elements", expected=f"{meta.numel}")
    try:
        if dtype.is_floating_point:
            return torch.from_numpy(np.array(data, dtype=np.float64)).to(dtype).reshape(meta.shape)
        return torch.tensor(data, dtype=dtype).reshape(meta.shape)
    except (RuntimeError, TypeError, OverflowError, ValueError) as error:
        raise BadInput(f"{meta.name}: data does not fit {meta.dtype}: {error}") from None


def clamp(tensor: torch.Tensor, low: float | None, high: float | None) -> torch.Tensor:
    """`torch.clamp`, also for dtypes that have none, with either bound missing."""
    if (low is None and high is None) or tensor.dtype.is_complex or tensor.dtype is torch.bool:
        return tensor
    if tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point:
        return tensor.float().clamp(low, high).to(tensor.dtype)
    if not tensor.dtype.is_floating_point:
        low = None if low is None else int(low)
        high = None if high is None else int(high)
        return tensor.long().clamp(low, high).to(tensor.dtype)
    return tensor.clamp(low, high)


def _tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values)).to(dtype)
