"""Measures what this machine can do at best, so that a reader can judge the numbers taken on it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from pass_bench.timing.clock import quiet, sync_of, time_host
from pass_bench.timing.interleave import FreshInputs, Plan, time_block
from pass_bench.timing.stats import compare

Device = Literal["cpu", "cuda"]
AA_RUNS = 10
TRIALS = 200


def calibration_path(device: Device) -> Path:
    """Return where the calibration of a device is kept: below $XDG_CACHE_HOME or ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "passnet" / f"calibration-{device}.json"


def read_calibration(device: Device, device_name: str) -> dict[str, float]:
    """Return what was measured on this machine for a device of this name, {} if nothing was."""
    try:
        kept = json.loads(calibration_path(device).read_text())
        if kept["device_name"] != device_name:
            return {}
        return {str(name): float(value) for name, value in kept["measured"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_calibration(device: Device, device_name: str, measured: dict[str, float]) -> Path:
    """Keep a calibration; returns where."""
    path = calibration_path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"device_name": device_name, "measured": measured}, indent=1))
    draft.replace(path)
    return path


def median_us(call: Callable[..., Any], inputs: list[Any], device: Device, trials: int = TRIALS) -> float:
    """Return the median host time of a call in microseconds, the device synchronised before and after."""
    sync = sync_of(device)
    with quiet():
        for _ in range(20):
            time_host(call, inputs, 0, sync)
        return float(np.median([time_host(call, inputs, 0, sync) for _ in range(trials)])) / 1000


def copy_gbs(device: Device, nbytes: int) -> float:
    """Return the bandwidth of a copy in GB/s, bytes read and written counted."""
    source = torch.randn(nbytes // 4, device=device)
    target = torch.empty_like(source)
    repeats = max(1, (1 << 30) // nbytes) if device == "cuda" else 1

    def call() -> None:
        for _ in range(repeats):
            target.copy_(source)

    return 2 * nbytes * repeats / (median_us(call, [], device, 15) * 1e3)


def aa_spread(device: Device) -> tuple[float, float]:
    """Time identical code against itself; return the largest |speedup - 1| and the median half-width."""
    x = torch.randn(64, 768, device=device)
    w = torch.ones(768, device=device)

    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x) + x, (768,), w)

    inputs = FreshInputs([x, w])
    worst, widths = 0.0, []
    for run in range(AA_RUNS):
        plan = Plan(trials=TRIALS, warmup=25, order_seed=run, seed=0, device=device)
        eager, compiled = time_block([call, call], [inputs, inputs], plan)
        found = compare(eager, compiled, seed=run)
        worst = max(worst, abs(found.speedup - 1))
        widths.append((found.high - found.low) / 2)
    return worst, float(np.median(widths))


def calibrate(device: Device) -> dict[str, float]:
    """Measure a device: times in us, bandwidths in GB/s, A/A spread as a fraction."""
    one = torch.zeros(16, device=device)
    worst, half_width = aa_spread(device)
    measured = {
        "empty_call_us": median_us(lambda: None, [], device),
        "one_op_us": median_us(lambda: one.add_(1), [], device),
        "allocate_us": median_us(lambda: torch.empty(1024, device=device), [], device),
        "copy_gbs": copy_gbs(device, 1 << 30 if device == "cuda" else 1 << 28),
        "copy_in_cache_gbs": copy_gbs(device, 1 << 23 if device == "cuda" else 1 << 18),
        "aa_worst": worst,
        "aa_half_width": half_width,
    }
    return {name: float(f"{value:.4g}") for name, value in measured.items()}
