"""What is recorded of a tensor: measured where there are numbers, a plausible choice where there are none."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from pass_bench.data.records import INTEGER_DTYPES, Number, TensorMeta

DATA_LIMIT = 64
_SAMPLE = 1 << 16
_MASKED = 1e4  # magnitudes above this are "minus infinity" of a mask, not values
_LEAST_STD = 0.001  # metas are written with three decimals
_POSITIVE = ("running_var", "variance", "_var_")
_NORM_WEIGHT = ("norm", "bn", "_ln_")


def measure(tensor: torch.Tensor, name: str, original_name: str | None = None) -> TensorMeta:
    """The meta of a tensor; one without storage (meta, fake) gets an estimate from its name and dtype.

    Floats that are all alike get a spread, since a replay of them would be constant; values that never are
    negative keep a `min_val`. Integers keep their range, and their values if there are fewer than 64.
    """
    dtype = str(tensor.dtype).removeprefix("torch.")
    fields: dict[str, Any] = {
        "name": name,
        "shape": tuple(int(n) for n in tensor.shape),
        "dtype": dtype,
        "device": "cpu",
        "original_name": original_name,
    }
    if _is_empty_shell(tensor):
        return estimate(TensorMeta(**fields))
    if dtype == "bool":
        return TensorMeta(**fields, data=_data(tensor))
    if dtype in INTEGER_DTYPES:
        if tensor.numel() == 0:
            return TensorMeta(**fields, min_val=0, max_val=1)
        low, high = torch.aminmax(tensor.to(torch.int64))
        data = _data(tensor)
        limits: dict[str, Any] = {} if data is not None else {"min_val": int(low), "max_val": int(high)}
        return TensorMeta(**fields, data=data, **limits)
    if not tensor.dtype.is_floating_point:
        return TensorMeta(**fields, data=_data(tensor))
    if tensor.dim() == 0:
        return TensorMeta(**fields, mean=None, std=None, data=(float(tensor),))
    return TensorMeta(**fields, **_float_statistics(tensor))


def estimate(meta: TensorMeta) -> TensorMeta:
    """A meta with statistics chosen by name and dtype alone, never constant."""
    name = (meta.original_name or meta.name).lower()
    if meta.dtype == "bool":
        return meta
    if meta.is_integer:
        return replace(meta, min_val=0, max_val=1)
    if any(part in name for part in _POSITIVE):
        return replace(meta, mean=1.0, std=0.5, min_val=0.1)
    if len(meta.shape) <= 1 and any(part in name for part in _NORM_WEIGHT):
        return replace(meta, mean=1.0 if "weight" in name else 0.0, std=0.25)
    if "parameters" in name:
        fan_in = math.prod(meta.shape[1:]) if len(meta.shape) > 1 else 64
        return replace(meta, mean=0.0, std=max(1.0 / math.sqrt(max(fan_in, 1)), 0.005))
    return replace(meta, mean=0.0, std=1.0)


def _is_empty_shell(tensor: torch.Tensor) -> bool:
    return tensor.is_meta or isinstance(tensor, FakeTensor)


def _data(tensor: torch.Tensor) -> tuple[Number, ...] | None:
    if tensor.numel() >= DATA_LIMIT:
        return None
    return tuple(tensor.detach().reshape(-1).tolist())


def _float_statistics(tensor: torch.Tensor) -> dict[str, Any]:
    flat = tensor.detach().reshape(-1)
    if flat.numel() > _SAMPLE:
        flat = flat[:: flat.numel() // _SAMPLE]
    flat = flat.to(torch.float64)
    flat = flat[flat.abs() < _MASKED]  # NaN and infinities go too
    if flat.numel() == 0:
        return {"mean": 0.0, "std": 1.0}
    mean, std = float(flat.mean()), float(flat.std(correction=0))
    low = float(flat.min())
    if std < _LEAST_STD:
        std = max(_LEAST_STD, abs(mean) * 0.1, 0.05 if std == 0 else 0.0)
        low = min(low, mean - std) if low < 0 or mean == 0 else low * 0.5
    statistics: dict[str, Any] = {"mean": round(mean, 3), "std": round(std, 3)}
    if low >= 0 and mean > 0:
        statistics["min_val"] = _round_down(low)
    return statistics


def _round_down(value: float) -> float:
    return 0.0 if value < 1e-6 else float(f"{value * 0.999:.4g}")
