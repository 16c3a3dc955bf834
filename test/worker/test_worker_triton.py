"""Triton passes: without a GPU verified under the interpreter and not timed, with one timed on two clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.results.verdict import Verdict
from pass_bench.score.outcome import outcome_of
from pass_bench.worker.evaluate import Evaluator, cuda_may_exist

PASS = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, {value}, mask=inside)


def pattern(x, y):
    return torch.nn.functional.relu(x + y)


def replacement_args(x, y):
    return (x, y)


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, out, x.numel(), BLOCK=64)
    return out


def replacement_func():
    return add_relu
"""
RIGHT = PASS.format(value="tl.maximum(total, 0.0)")
NEEDS_GPU = PASS.format(value="tl.extra.cuda.libdevice.tanh(total)")


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator(EvalSettings(device="cpu", warmup=5, trials=50, timeout_s=120)) as running:
        yield running


def test_an_interpreted_pass_is_verified_and_not_timed(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": RIGHT})))
    assert (result.verdict, result.reason) == (Verdict.CORRECT, "")
    assert result.interpreted
    assert result.e2e is not None and result.e2e.compiled.trials == 1
    assert outcome_of(result).speedup is None and not outcome_of(result).scored
    assert any("interpreter" in warning for warning in result.warnings)


def test_what_the_interpreter_cannot_do_is_unsupported(
    evaluator: Evaluator, make_sample: Callable[..., Path]
) -> None:
    (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": NEEDS_GPU})))
    assert result.verdict is Verdict.UNSUPPORTED_ON_CPU, result.reason
    assert "libdevice" in result.reason


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_may_exist(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("compiler", ["nope", "inductor", "pass_mgr", "pass_mgr_direct"])
def test_every_compiler_on_a_gpu(compiler: str, make_sample: Callable[..., Path]) -> None:
    settings = EvalSettings(device="cuda", compiler=compiler, regimes=("recorded", "random", "special"))
    with Evaluator(settings) as evaluator:
        (result,) = evaluator.evaluate(read_sample(make_sample(passes={"P": RIGHT})))
    assert (result.verdict, result.reason, result.device) == (Verdict.CORRECT, "", "cuda")
    assert not result.interpreted and result.device_name
    assert result.e2e is not None and result.e2e.eager.trials >= 100
    assert result.device_time is not None and result.device_time.compiled.median_us > 0
    assert result.memory is not None and result.memory.eager_bytes >= 2 * 8 * 16 * 4
    if compiler == "nope":
        assert result.e2e.low - 0.02 <= 1 <= result.e2e.high + 0.02
    if compiler.startswith("pass_mgr"):
        assert result.unrewritten is not None and result.passes[0].replaced == 1
