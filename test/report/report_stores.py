"""Synthetic stores for the report's tests: seeded, of any size, with every verdict and flag in them."""

from __future__ import annotations

import random
from pathlib import Path

from pass_bench.results.records import (
    Comparison,
    EnvironmentRecord,
    GraphResult,
    PassReport,
    RegimeReport,
    TensorReport,
    TimingStats,
    WorstElement,
)
from pass_bench.results.store import Store, StoredResult
from pass_bench.results.verdict import Verdict

FAILURES = [
    Verdict.ACCURACY,
    Verdict.RUNTIME_FAIL,
    Verdict.PASS_MISS,
    Verdict.COMPILE_FAIL,
    Verdict.SHAPE_MISMATCH,
    Verdict.TYPE_MISMATCH,
    Verdict.REJECTED,
    Verdict.TIMEOUT,
    Verdict.EAGER_FAIL,
    Verdict.INFRA,
    Verdict.UNSUPPORTED_ON_CPU,
    Verdict.NOTHING_TO_CHECK,
]
KINDS = [
    "add_layer_norm",
    "gelu_gate",
    "rms_norm",
    "masked_softmax",
    "rotary",
    "se_block",
    "bn_relu",
    "cat_roll",
]
ENVIRONMENT = EnvironmentRecord(
    harness="0.1.0",
    python="3.12.3",
    torch="2.11.0+cu128",
    triton="3.6.0",
    device="cuda",
    device_name="NVIDIA H100 80GB HBM3",
    driver="570.86",
    cpu="Intel Xeon Platinum 8480+",
    threads=16,
    commit="0123456789abcdef",
    clocks="sm 1980 MHz, memory 2619 MHz",
    calibration={"aa_spread": 0.012, "copy_gb_per_s": 2510.0, "launch_floor_us": 4.8},
)


def comparison(rng: random.Random, speedup: float, eager_us: float, noise: float = 0.01) -> Comparison:
    def stats(median: float) -> TimingStats:
        return TimingStats(
            trials=100, median_us=median, q25_us=median * 0.97, q75_us=median * 1.05, min_us=median * 0.9
        )

    low, high = speedup * (1 - noise * (1 + rng.random())), speedup * (1 + noise * (1 + rng.random()))
    return Comparison(
        eager=stats(eager_us),
        compiled=stats(eager_us / speedup),
        speedup=speedup,
        low=low,
        high=high,
        noisy=noise > 0.02,
    )


def tensors(rng: random.Random, dtype: str, level: int | None) -> tuple[TensorReport, ...]:
    error = 10.0 ** (level if level is not None else 2)
    worst = WorstElement(index=(0, 3, 17), expected=1.25, actual=1.25 + error, tolerance=1e-5)
    return (
        TensorReport(
            where="output[0]",
            dtype=dtype,
            compiled_dtype=dtype,
            shape=(16, 197, 768),
            passes_from=level,
            max_diff=error,
            mean_diff=error / 30,
            worst=worst,
            float64_error=error * 1.1,
            eager_float64_error=error * 0.9,
        ),
    )


def one(
    rng: random.Random, sample: str, graph: str, index: int, compiler: str, level: float, broken: float
) -> GraphResult:
    dtype = ("float32", "float16", "bfloat16")[index % 3]
    eager_us = 10 ** rng.uniform(1.2, 3.4)
    verdict = rng.choice(FAILURES) if rng.random() < broken else Verdict.CORRECT
    passes = {Verdict.CORRECT: rng.choice([-10, -7, -6, -5]), Verdict.ACCURACY: rng.choice([-3, -1, 2, None])}
    passes_from = passes.get(verdict)
    noise = 0.05 if rng.random() < 0.04 else 0.008
    speedup = level * 2 ** rng.gauss(0, 0.45)
    return GraphResult(
        sample=sample,
        graph=graph,
        index=index,
        compiler=compiler,
        device="cuda",
        device_name=ENVIRONMENT.device_name,
        verdict=verdict,
        reason=""
        if verdict is Verdict.CORRECT
        else f"{verdict.value}: output[0] <b>differs</b> at [0, 3, 17]",
        detail="" if verdict.ran else "Traceback (most recent call last):\n  boom\nRuntimeError: boom",
        passes=(
            PassReport(name="FusedAddLayerNorm", matched=2, replaced=2),
            PassReport(name="FusedGelu", matched=0, replaced=0, nearest_miss="gelu has approximate='tanh'"),
        ),
        regimes=tuple(
            RegimeReport(
                regime=regime, seed=1, passes_from=passes_from, tensors=tensors(rng, dtype, passes_from)
            )
            for regime in ("recorded", "random")
        )
        if verdict.ran
        else (),
        passes_from=passes_from,
        weak_at=-4 if rng.random() < 0.03 else None,
        e2e=comparison(rng, speedup, eager_us, noise) if verdict.ran else None,
        device_time=comparison(rng, speedup * 1.2, eager_us * 0.8) if verdict.ran else None,
        unrewritten=comparison(rng, 1.0, eager_us) if verdict.ran else None,
        log_tail="<script>alert('log')</script>\x1b[31m compiled 2 kernels\n" if index == 0 else "",
    )


def write_store(
    path: Path,
    submission: str,
    samples: int,
    *,
    compilers: tuple[str, ...] = ("pass_mgr_direct", "inductor"),
    level: float = 1.4,
    broken: float = 0.15,
    seed: int = 0,
    graphs: int = 10,
    drop: int = 0,
) -> Path:
    """A store of samples * graphs * compilers results, the last `drop` samples missing."""
    rng = random.Random(seed)
    with Store(path) as store:
        name = store.add_environment(ENVIRONMENT)
        for number in range(samples - drop):
            sample = f"samples/hf_subgraphs_v2/fusible_subgraphs/{KINDS[number % len(KINDS)]}_{number:03d}"
            for index in range(graphs):
                graph = (
                    f"graphs/hf_subgraphs_v2/fusible_subgraphs/model_{number}_start{index}_end{index + 5}_0"
                )
                for compiler in compilers:
                    mean = 1.1 if compiler == "inductor" else level
                    bad = broken / 4 if compiler == "inductor" else broken
                    result = one(rng, sample, graph, index, compiler, mean, bad)
                    stored = StoredResult(
                        submission=submission,
                        environment=name,
                        measured_at="2026-11-27T21:00:00+00:00",
                        result=result,
                    )
                    store.append(f"{compiler}-{number}-{index}", stored)
    return path
