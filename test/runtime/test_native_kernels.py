"""C++ and CUDA kernels of pass_bench.kernels inside plans."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from runtime_triples import load_idiom
from torch import fx

from pass_bench.compilers.pass_mgr_direct import PassMgrDirect
from pass_bench.kernels import cpp_kernel, cuda
from pass_bench.kernels.launch import low_overhead
from pass_bench.passes import PassRule
from pass_bench.runtime import build_direct
from pass_bench.runtime import direct as direct_module
from pass_bench.runtime.plan import CurrentStream, Slot
from pass_bench.runtime.record import record

axpy = cpp_kernel(
    "void axpy(const float* x, const float* y, float* out, int64_t n, double a) {"
    " for (int64_t i = 0; i < n; ++i) out[i] = float(a) * x[i] + y[i]; }",
    "axpy(const float* x, const float* y, float* out, int64_t n, double a)",
)
scale = cuda.cuda_kernel(
    "__global__ void scale(const float* x, float* y, int64_t n, float s) {}",
    "scale(const float* x, float* y, int64_t n, float s)",
)
add_relu_kernel = low_overhead(load_idiom("add_relu_lambda_grid").add_relu_kernel)


def fused(x: Any, y: Any) -> Any:
    x, y = x.contiguous(), y.contiguous()
    out, twice = torch.empty_like(x), torch.empty_like(x)
    axpy(x, y, out, x.numel(), 2.0)
    axpy(out, out, twice, out.numel(), 1.0)
    return out, twice


CALLS = 0


def counted(x: Any, y: Any) -> Any:
    global CALLS
    CALLS += 1
    return once(x, y)


def once(x: Any, y: Any) -> Any:
    out = torch.empty_like(x)
    axpy(x, y, out, x.numel(), 2.0)
    return out


def of_an_empty_cell(filled: bool = False) -> Any:
    if filled:
        kept = 1

    def broken(x: Any, y: Any) -> Any:
        return x, y if x is y else kept

    return broken


def launched(x: Any) -> Any:
    y = torch.empty_like(x)
    scale[(x.numel() + 255) // 256, 256](x, y, x.numel(), 0.5)
    return y


def wrapped(x: Any, y: Any) -> Any:
    out = torch.empty_like(x)
    add_relu_kernel[(4,)](x, y, out, x.numel(), BLOCK_SIZE=16)
    return out


def two_inputs(function: Any) -> fx.GraphModule:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    node = graph.call_function(function, (x, y))
    graph.output((graph.call_function(operator.getitem, (node, 1)), node))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_cpp_kernels_are_planned_at_once() -> None:
    example = [torch.randn(3, 4), torch.randn(3, 4)]
    direct = build_direct(two_inputs(fused), example)
    assert direct.report().planned == ("fused",)
    for shape in [(3, 4), (2, 5), (3, 4)]:
        for _ in range(4):
            x, y = torch.randn(shape), torch.randn(shape).t().contiguous().t()
            twice, (out, again) = direct(x, y)
            torch.testing.assert_close(out, 2 * x + y)
            torch.testing.assert_close(twice, out + out)
            assert again is twice
    with pytest.raises(TypeError):
        direct(torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))


def test_the_record_says_why_an_impure_function_is_not_planned() -> None:
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return torch.add(y, x, alpha=2), torch.add(x, y, alpha=2)

    rule = PassRule("Axpy", lambda x, y: torch.add(y, x, alpha=2), lambda x, y: (x, y), lambda: counted)
    example = [torch.randn(3, 4), torch.randn(3, 4)]
    compiled = PassMgrDirect().compile(Model(), ["x", "y"], example, [rule], "cpu")
    assert compiled.note == "counted runs as written: counted assigns the global CALLS"
    assert CALLS == 0  # looking at the code is all that was done
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(compiled.call(x, y), (2 * x + y, 2 * y + x))


def test_a_function_that_settles_late_is_in_the_record_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_module, "WARM_CALLS", 2)
    rule = PassRule("Axpy", lambda x, y: torch.add(y, x, alpha=2), lambda x, y: (x, y), lambda: once)
    example = [torch.randn(3, 4), torch.randn(3, 4)]
    gm = torch.fx.symbolic_trace(lambda x, y: (torch.add(y, x, alpha=2),))
    compiled = PassMgrDirect().compile(gm, ["x", "y"], example, [rule], "cpu")
    assert compiled.note == "once is not planned yet: no two recordings in a row agree"


def test_host_code_that_breaks_its_examination_is_not_planned() -> None:
    direct = build_direct(two_inputs(of_an_empty_cell()), [torch.ones(4), torch.ones(4)])
    (why,) = direct.report().unplanned
    assert why.startswith("broken runs as written: it cannot be examined: ValueError")


def test_a_fresh_output_for_every_call() -> None:
    direct = build_direct(two_inputs(fused), [torch.ones(4), torch.ones(4)])
    held = [direct(torch.full((4,), float(i)), torch.zeros(4))[0] for i in range(5)]
    assert [h[0].item() for h in held] == [0, 4, 8, 12, 16]


def test_a_cuda_kernel_is_bound_to_its_native_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def native(*args: Any) -> None:
        calls.append(args)

    monkeypatch.setattr(cuda, "_native_launch", lambda: native)
    monkeypatch.setattr(cuda, "_current_device", lambda name: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7, raising=False)
    monkeypatch.setattr(type(scale), "_load", lambda *args: cuda.LoadedFunction(99, b"spec"))
    x = torch.ones(300)
    _, plan, refused = record(launched, (x,))
    assert refused == "" and plan is not None
    step = plan.steps[-1]
    assert step.function is native
    assert step.args[:5] == (99, 0, CurrentStream(0), 0, (2, 1, 1, 256, 1, 1))
    assert step.args[-1] == (Slot(0), Slot(1), 300, 0.5)
    assert calls[0][2] == 7
    assert step.device == 0


def test_a_wrapped_kernel_is_planned_like_any_other() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(wrapped, (graph.placeholder("x"), graph.placeholder("y"))))
    direct = build_direct(fx.GraphModule(torch.nn.Module(), graph), [])
    for _ in range(4):
        x, y = torch.randn(8, 8), torch.randn(8, 8)
        assert torch.equal(direct(x, y), torch.relu(x + y))
    assert direct.report().planned == ("wrapped",)
