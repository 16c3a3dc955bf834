"""Audited calls, on inputs that a guard moves or refills, must run the same plan as usual calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx

from pass_bench.guard.audit import Refill
from pass_bench.guard.audit_modes import AUDIT_MODES, AuditMode
from pass_bench.guard.audited_inputs import AuditedInputs, Recorder
from pass_bench.kernels import cpp_kernel
from pass_bench.runtime import build_direct
from pass_bench.timing.interleave import FreshInputs, Plan, time_block

ROWS, COLS = 33, 2048

kernel = cpp_kernel(
    """
void scaled_sum(const float* x, const float* y, const float* w, float* total, float* out, int64_t n,
                int64_t cols) {
  for (int64_t i = 0; i < n; ++i) {
    total[i] = x[i] + y[i];
    out[i] = total[i] * w[i % cols];
  }
}
""",
    "scaled_sum(const float* x, const float* y, const float* w, float* total, float* out, int64_t n, "
    "int64_t cols)",
)


def scaled_sum(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
    total, out = torch.empty_like(x), torch.empty_like(x)
    kernel(x, y, w, total, out, x.numel(), x.shape[-1])
    return total, out


def inputs() -> list[torch.Tensor]:
    return [torch.randn(1, ROWS, COLS), torch.randn(1, ROWS, COLS), torch.randn(COLS)]


@pytest.fixture
def planned() -> Any:
    graph = fx.Graph()
    node = graph.call_function(scaled_sum, tuple(graph.placeholder(name) for name in "xyw"))
    graph.output(node)
    call = build_direct(fx.GraphModule(torch.nn.Module(), graph), inputs())
    assert call.report().planned == ("scaled_sum",)
    return call


@pytest.mark.parametrize("mode", AUDIT_MODES)
def test_audited_calls_run_the_plan(planned: Any, mode: AuditMode) -> None:
    missed: list[Any] = []
    miss = planned.__globals__["_miss"]

    def counted(values: Any) -> Any:
        missed.append(values)
        return miss(values)

    planned.__globals__["_miss"] = counted
    values, draws = inputs(), [inputs() for _ in range(4)]
    plan = Plan(trials=4, warmup=0, order_seed=5, seed=6)
    usual = time_block([planned], [FreshInputs(values)], Plan(20, 5, order_seed=5, seed=6))
    recorder = Recorder(0, draws)
    audited = AuditedInputs(values, frozenset(), [mode] * 4, draws, Refill(values))
    time_block([planned], [audited], plan, recorder.saw)
    assert missed == []
    assert len(usual[0]) == 20
    assert planned.report().variants == 1
    assert len(recorder.kept) == 4
    for kept, (x, y, w) in zip(recorder.kept, draws, strict=True):
        assert torch.equal(kept.outputs[0], x + y) and torch.equal(kept.outputs[1], (x + y) * w)
        assert kept.arguments == {}
