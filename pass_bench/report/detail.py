"""The drill-down of one graph, as compact JSON: what report.js shows when a graph is opened."""

from __future__ import annotations

import json
import math
from typing import Any

from pass_bench.results.records import Comparison, RegimeReport, TensorReport, TimingStats
from pass_bench.results.store import StoredResult

_LOG_IN_ALL = 1_200_000
_LONGEST_LOG, _SHORTEST_LOG = 2000, 200
_TEXT = 1200
_TENSORS = 12


def log_limit(results: int) -> int:
    """How many characters of each log a report of so many results can keep and still be a small file."""
    return max(_SHORTEST_LOG, min(_LONGEST_LOG, _LOG_IN_ALL // max(results, 1)))


def detail_json(stored: StoredResult, source: int | None, log_characters: int = _LONGEST_LOG) -> str:
    """Everything about one graph in a few kilobytes; `source` is the number of its text in the report.

    Empty parts are left out, numbers have six digits, NaN and inf become strings.
    """
    result = stored.result
    parts: dict[str, Any] = {
        "source": source,
        "why": result.reason[:_TEXT],
        "trace": result.detail[:_TEXT],
        "log": result.log_tail[-log_characters:],
        "warnings": [text[:_TEXT] for text in result.warnings[:_TENSORS]],
        "violations": [[v.rule, v.why[:_TEXT], v.file, v.line] for v in result.violations[:_TENSORS]],
        "passes": [[p.name, p.matched, p.replaced, p.skipped, p.nearest_miss[:_TEXT]] for p in result.passes],
        "breaks": result.graph_breaks or None,
        "regimes": [_regime(regime) for regime in result.regimes],
        "weak_at": result.weak_at,
        "times": {
            name: _comparison(comparison)
            for name, comparison in (
                ("e2e", result.e2e),
                ("device", result.device_time),
                ("without passes", result.unrewritten),
            )
            if comparison is not None
        },
        "memory": None
        if result.memory is None
        else [result.memory.eager_bytes, result.memory.compiled_bytes],
        "phases": [getattr(result.phases, f"{name}_s") for name in ("prepare", "verify", "time", "total")],
        "at": stored.measured_at,
        "device": result.device_name or result.device,
    }
    kept = {name: value for name, value in parts.items() if value not in (None, "", [], {})}
    return json.dumps(_plain(kept), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _regime(regime: RegimeReport) -> list[Any]:
    tensors = [_tensor(tensor) for tensor in regime.tensors[:_TENSORS]]
    left = len(regime.tensors) - len(tensors)
    return [regime.regime, regime.passes_from, regime.error, regime.skipped, tensors, left]


def _tensor(tensor: TensorReport) -> list[Any]:
    worst = tensor.worst
    return [
        tensor.where,
        tensor.dtype,
        tensor.compiled_dtype,
        list(tensor.shape),
        tensor.passes_from,
        tensor.max_diff,
        tensor.mean_diff,
        int(tensor.nonfinite),
        None if worst is None else [list(worst.index), worst.expected, worst.actual, worst.tolerance],
        tensor.float64_error,
        tensor.eager_float64_error,
    ]


def _comparison(comparison: Comparison) -> list[Any]:
    return [
        _stats(comparison.eager),
        _stats(comparison.compiled),
        comparison.speedup,
        comparison.low,
        comparison.high,
        int(comparison.noisy),
    ]


def _stats(stats: TimingStats) -> list[Any]:
    return [stats.median_us, stats.q25_us, stats.q75_us, stats.min_us, stats.trials]


def _plain(value: Any) -> Any:
    """The value with numbers that JSON can hold."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
