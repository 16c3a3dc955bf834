"""The example passes against eager, and the example samples as directories.

On a machine with a GPU the same passes are checked there: python -m pytest -m gpu test/samples
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from pass_bench.data import Graph, read_graph, read_sample
from pass_bench.fx import capture, load_module, rewrite
from pass_bench.guard.source_rules import check_pass_dir
from pass_bench.inputs import make_inputs
from pass_bench.kernels import interpreter
from pass_bench.passes.load import load_passes
from pass_bench.score.tolerance import atol_rtol

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLES = sorted(path.parent for path in (REPOSITORY / "samples").glob("*/*/*/pass_dir"))
LISTED = [(sample, ref) for sample in SAMPLES for ref in read_sample(sample).graphs]
IN_CPP = {sample for sample in SAMPLES if list((sample / "pass_dir").glob("*_cpu.py"))}
LARGE = 8 * 2**20  # bytes


def _name(value: Any) -> str:
    return (
        value.listed.rsplit("/", 1)[-1] if hasattr(value, "listed") else f"{value.parent.name}/{value.name}"
    )


def _bytes(graph: Graph) -> int:
    return max(
        torch.Size(meta.shape).numel() * getattr(torch, meta.dtype).itemsize for meta in graph.metas.values()
    )


def _check(sample: Path, graph: Graph, device: str, regimes: tuple[str, ...]) -> None:
    """The passes replace the whole graph, and every output is right at t = -5."""
    rules = load_passes(sample / "pass_dir", device=device).rules
    module = load_module(graph, device)
    rewritten = rewrite(capture(module, graph), rules)
    assert [report.replaced for report in rewritten.reports] == [1], rewritten.reports
    calls = [n for n in rewritten.module.graph.nodes if n.op in ("call_function", "call_method")]
    assert len([n for n in calls if "getitem" not in n.name]) == 1
    for regime in regimes:
        inputs = make_inputs(graph, regime, 123, device)
        with torch.no_grad():
            actual, expected = rewritten.module(*inputs), module(*inputs)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            atol, rtol = atol_rtol(str(other.dtype).removeprefix("torch."), -5)
            torch.testing.assert_close(one, other, atol=atol, rtol=rtol)


@pytest.mark.parametrize(("sample", "ref"), LISTED, ids=_name)
def test_passes_are_right_on_a_cpu(sample: Path, ref: Any):
    """C++ where a sample has it, else Triton under its interpreter (on the small graphs)."""
    graph = read_graph(ref.path)
    if sample not in IN_CPP:
        pytest.importorskip("triton")
        if torch.cuda.is_available():
            pytest.skip("Triton is not interpreted on a machine with a GPU")
        interpreter.enable()
        if _bytes(graph) > LARGE:
            pytest.skip("too large for the interpreter here: evaluated by passbench eval")
    _check(sample, graph, "cpu", ("recorded", "random"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize(("sample", "ref"), LISTED, ids=_name)
def test_passes_are_right_on_a_gpu(sample: Path, ref: Any):
    _check(sample, read_graph(ref.path), "cuda", ("recorded", "random"))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["gelu_tanh", "silu_mul", "squeeze_excite_scale"])
def test_functions_equal_eager_on_every_16_bit_value_on_a_gpu(kind: str, dtype: torch.dtype):
    """One neighbour off in an intermediate is too much after what follows it."""
    (sample,) = (path for path in SAMPLES if path.name == kind)
    (rule,) = load_passes(sample / "pass_dir", device="cuda").rules
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32, device="cuda").to(torch.int16).view(dtype)
    x = bits[bits.isfinite()].view(1, -1, 1, 1)
    inputs = {
        "gelu_tanh": (x,),
        "silu_mul": (x, torch.ones_like(x)),
        "squeeze_excite_scale": (x, torch.ones_like(x)),
    }[kind]
    actual, expected = rule.replacement_func()(*inputs), rule.pattern(*inputs)
    different = (actual != expected) & ~(actual.isnan() & expected.isnan())
    found = list(zip(*(t[different][:3].tolist() for t in (x, actual, expected)), strict=True))
    assert not different.any(), f"{int(different.sum())} of {x.numel()} inputs: {found}"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_squares_are_summed_in_eagers_order_on_a_gpu():
    (sample,) = (path for path in SAMPLES if path.name == "add_rms_norm")
    (rule,) = load_passes(sample / "pass_dir", device="cuda").rules
    for rows in (128, 2048):
        x, residual = torch.randn(2, 1, rows, 2048, device="cuda").to(torch.float16)
        weight = torch.randn(2048, device="cuda").to(torch.float16)
        actual = rule.replacement_func()(x, residual, weight)
        expected = rule.pattern(x, residual, weight, torch.float16)
        assert torch.equal(actual[0], expected[0])
        assert torch.equal(actual[1], expected[1]), f"{int((actual[1] != expected[1]).sum())} differ"


def test_there_are_examples_of_every_kind():
    assert len(SAMPLES) >= 8
    assert len(IN_CPP) >= 4
    assert (REPOSITORY / "samples/fusible_subgraphs/bert-base-uncased/add_layer_norm").is_dir()


@pytest.mark.parametrize("sample", SAMPLES, ids=_name)
def test_a_sample_is_complete(sample: Path):
    for name in ("entry.sh", "graphs", "pass_bench"):
        link = sample / name
        assert link.is_symlink()
        assert not link.readlink().is_absolute()
        assert link.exists(), f"{name} leads nowhere"
    assert os.access(sample / "entry.sh", os.X_OK)
    graphs = [read_graph(ref.path) for ref in read_sample(sample).graphs]
    floats = {meta.dtype for graph in graphs for meta in graph.metas.values()}
    assert floats == {"float32", "float16", "bfloat16"}
    assert sum(_bytes(graph) > LARGE for graph in graphs) == 1
    batch_1 = [graph for graph in graphs if graph.path.name.endswith("_batch1")]
    assert len(batch_1) == 3


@pytest.mark.parametrize("sample", SAMPLES, ids=_name)
def test_passes_obey_the_source_rules_and_serve_both_devices(sample: Path):
    assert check_pass_dir(sample / "pass_dir") == ()
    if not torch.cuda.is_available():
        interpreter.enable()
    for device in ("cpu", "cuda"):
        assert len(load_passes(sample / "pass_dir", device=device).rules) == 1
