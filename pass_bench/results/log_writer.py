"""Reference-style log lines of a result, for people and for tools that read such logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from pass_bench.results.records import Comparison, GraphResult, TensorReport, TimingStats
from pass_bench.score.tolerance import LEVELS, TOLERANT_DTYPES, tolerance_key

DEFAULT_PROMPT = "graph-net-test-compiler-log"
_CONFIG_LINES = 8  # what stands before the lines of the pass manager, which carry no prompt


def log_lines(
    result: GraphResult,
    *,
    prompt: str = DEFAULT_PROMPT,
    path: str | None = None,
    model: str = "",
    warmup: int = 25,
    trials: int = 100,
    framework_version: str = "unknown",
) -> list[str]:
    """All log lines of one graph.

    `path` is what stands after [Processing], the listed path unless given. The columns of the correctness
    lines are the outputs and then the effects on inputs, the worse of the scored regimes; the keys are those
    of the dtypes that occur, and a column says whether that tensor passes at the key's level t by the
    tolerance of its own dtype. Times are in milliseconds.
    """
    lines = [
        f"[Processing] {path or result.graph}",
        f"[Config] model: {model or PurePath(result.graph).name}",
        f"[Config] device: {result.device}",
        f"[Config] hardware: {result.device_name or 'unknown'}",
        f"[Config] compiler: {result.compiler}",
        f"[Config] warmup: {warmup}",
        f"[Config] trials: {trials}",
        f"[Config] compile_framework_version: {framework_version}",
    ]
    backend = _pass_lines(result) if result.compiler.startswith("pass_mgr") else []
    tensors = _worst_of_regimes(result)
    if tensors:
        lines += _dtype_lines(tensors)
    if result.verdict.ran and tensors:
        lines += _correctness_lines(tensors)
    lines.append(f"[Result] status: {'success' if result.verdict.ran else 'failed'}")
    lines.append(f"[Result] verdict: {result.verdict.value}")
    if result.reason and not result.verdict.ran:
        lines.append(f"[Result] reason: {one_line(result.reason)}")
    lines += _time_lines(result)
    head, tail = lines[:_CONFIG_LINES], lines[_CONFIG_LINES:]
    return [*(f"{prompt} {line}" for line in head), *backend, *(f"{prompt} {line}" for line in tail)]


def _pass_lines(result: GraphResult) -> list[str]:
    # A search that was cut short says so in `skipped` even where it found something to replace.
    tried = [report for report in result.passes if report.replaced or not report.skipped]
    lines = [f"[PassMgrBackend] Loaded {len(tried)} passes: {[report.name for report in tried]}"]
    for report in tried:
        if report.replaced:
            lines.append(f"[PassMgrBackend] Applied {report.replaced} replacements with {report.name}.")
        elif not report.matched:
            lines.append(f"[PassMgrBackend] Pass {report.name} failed to match.")
    lines.append(f"Has Any pass matched? {any(report.matched for report in tried)}")
    return lines


def _worst_of_regimes(result: GraphResult) -> list[TensorReport]:
    """One report per tensor: the one of the scored regime where it does worst."""
    worst: dict[str, TensorReport] = {}
    for regime in result.regimes:
        if regime.regime == "special":
            continue
        for tensor in regime.tensors:
            known = worst.get(tensor.where)
            if known is None or _rank(tensor) > _rank(known):
                worst[tensor.where] = tensor
    return list(worst.values())


def _rank(tensor: TensorReport) -> tuple[float, bool, float]:
    level = float("inf") if tensor.passes_from is None else tensor.passes_from
    return level, tensor.nonfinite, tensor.max_diff or 0.0


def _dtype_lines(tensors: Sequence[TensorReport]) -> list[str]:
    eager = [tensor.dtype for tensor in tensors]
    compiled = [tensor.compiled_dtype for tensor in tensors]
    return [
        f"[Datatype][eager]: {' '.join(eager)}",
        f"[Datatype][compiled]: {' '.join(compiled)}",
        f"[DataType] eager:{eager} compiled:{compiled} match:{eager == compiled}",
    ]


def _correctness_lines(tensors: Sequence[TensorReport]) -> list[str]:
    dtypes = [dtype for dtype in TOLERANT_DTYPES if any(t.dtype == dtype for t in tensors)]
    lines = [_line("equal", (int(_equal(tensor)) for tensor in tensors))]
    for t in LEVELS:
        passes = [int(x.passes_from is not None and x.passes_from <= t) for x in tensors]
        lines += [_line(tolerance_key(dtype, t), passes) for dtype in dtypes or ["float32"]]
    lines.append(_line("max_diff", map(_max_diff, tensors)))
    lines.append(_line("mean_diff", ("nan" if t.mean_diff is None else t.mean_diff for t in tensors)))
    return lines


def _line(name: str, values: Iterable[object]) -> str:
    return f"[Correctness][{name}]: {' '.join(map(str, values))}"


def _max_diff(tensor: TensorReport) -> float | str:
    """The largest difference: nan where NaN or inf is one, which is all that tells a reader of the log."""
    return "nan" if tensor.nonfinite or tensor.max_diff is None else tensor.max_diff


def _equal(tensor: TensorReport) -> bool:
    if tensor.dtype not in TOLERANT_DTYPES:
        return tensor.passes_from is not None
    return tensor.max_diff == 0 and not tensor.nonfinite


def _time_lines(result: GraphResult) -> list[str]:
    if result.e2e is None:
        return []
    if result.interpreted:
        return ["[Performance] interpreted kernels: the time is not a speed"]
    eager, compiled = {"e2e": _stats(result.e2e.eager)}, {"e2e": _stats(result.e2e.compiled)}
    if result.device_time is not None:
        eager["gpu"] = _stats(result.device_time.eager)
        compiled["gpu"] = _stats(result.device_time.compiled)
    lines = [
        f"[Performance][eager]: {json.dumps(eager)}",
        f"[Performance][compiled]: {json.dumps(compiled)}",
        _speedup("e2e", result.e2e),
    ]
    if result.device_time is not None:
        lines.append(_speedup("gpu", result.device_time))
    return lines


def _stats(stats: TimingStats) -> dict[str, float]:
    microseconds = {
        "mean": stats.mean_us,
        "std": stats.std_us,
        "min": stats.min_us,
        "max": stats.max_us,
        "median": stats.median_us,
        "q25": stats.q25_us,
        "q75": stats.q75_us,
    }
    return {name: float(f"{us / 1000:.6g}") for name, us in microseconds.items() if us is not None}


def _speedup(name: str, comparison: Comparison) -> str:
    return f"[Speedup][{name}]: {comparison.speedup:.5f}"


def one_line(text: str) -> str:
    """The first line of a text, without control characters, at most 300 characters long."""
    first = text.strip().splitlines()[0] if text.strip() else ""
    return "".join(c if c.isprintable() else " " for c in first)[:300]
