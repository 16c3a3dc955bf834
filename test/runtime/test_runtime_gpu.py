"""Plans, replays and direct launches on a real GPU: `python -m pytest -m gpu test/runtime`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from runtime_triples import arity, identical, load_idiom, one_call

from pass_bench.runtime import build_direct
from pass_bench.runtime.checked import Checked
from pass_bench.runtime.emit import written_source
from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.recorded import native_replay
from pass_bench.runtime.replay import Replay

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
NAMES = (
    "add_relu_lambda_grid",
    "autotuned",
    "heuristics",
    "two_kernels",
    "kernel_in_a_loop",
    "flattened_argument",
)


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def inputs_of(name: str, rows: int = 64) -> list[torch.Tensor]:
    return [torch.randn(rows, 32, device="cuda") for _ in range(arity(load_idiom(name)))]


@pytest.mark.parametrize("name", NAMES)
def test_launches_go_to_the_current_stream(name: str) -> None:
    gm = one_call(load_idiom(name))
    direct = build_direct(gm, inputs_of(name))
    assert direct.report().planned
    side = torch.cuda.Stream()
    for _ in range(5):
        ready = inputs_of(name)
        expected = gm(*fresh_copies(ready))
        late = [torch.zeros_like(x) for x in ready]
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)  # what the plan reads is written some ten milliseconds later
            for target, source in zip(late, ready, strict=True):
                target.copy_(source)
            actual = direct(*late)
            kept = actual.clone()
        side.synchronize()
        assert identical(kept, expected)


@pytest.mark.parametrize("name", [*NAMES, "in_place_on_argument", "returns_tuple", "argument_passed_through"])
@pytest.mark.parametrize("moving", [False, True])
def test_replays_are_never_stale(name: str, moving: bool) -> None:
    gm = one_call(load_idiom(name))
    direct = build_direct(gm, inputs_of(name))
    made: list[Replay] = []

    def make(kind: tuple[Any, ...]) -> Replay:
        made.append(Replay(direct, kind, direct.may_write))
        return made[-1]

    replay = Checked(arity(load_idiom(name)), make, direct, alignment=False).entry
    shared, held, expected = inputs_of(name), [], []
    for call in range(12):
        rows = 32 if call == 7 else 64
        inputs = inputs_of(name, rows)
        if not moving and rows == 64:
            for target, source in zip(shared, inputs, strict=True):
                target.copy_(source)
            inputs = shared
        theirs = fresh_copies(inputs)
        expected.append(gm(*theirs))
        held.append(replay(*inputs))
        torch.cuda.synchronize()
        assert identical(held[-1], expected[-1])
        assert identical(inputs, theirs)
        if name in ("in_place_on_argument", "argument_passed_through"):
            held[-1] = expected[-1] = None  # these hand out their argument, which the next call changes
    assert [replay.why_plain for replay in made] == [""] * len(made)
    torch.cuda.synchronize()
    assert all(identical(a, b) for a, b in zip(held, expected, strict=True))


@pytest.mark.parametrize("name", ["add_relu_lambda_grid", "two_kernels", "output_through_a_view"])
def test_replays_wait_for_the_stream_that_they_are_called_on(name: str) -> None:
    gm = one_call(load_idiom(name))
    direct = build_direct(gm, inputs_of(name))
    late = inputs_of(name)
    checked = Checked(len(late), lambda kind: Replay(direct, kind, direct.may_write), direct, alignment=False)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    for call in range(18):
        ready = inputs_of(name)
        expected = gm(*fresh_copies(ready))
        torch.cuda.synchronize()
        stream = streams[call // 3 % 3]  # three calls on each: one that finds out, two in straight code
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            for target, source in zip(late, ready, strict=True):
                target.copy_(source)
            kept = checked.entry(*late).clone()
        stream.synchronize()
        assert identical(kept, expected)
    assert "native" in written_source(checked.entry.__code__)


@pytest.mark.parametrize("draws", [False, True])
def test_replays_draw_random_numbers_as_calls_do(draws: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) if draws else x * 2

    x = torch.ones(64, 64, device="cuda")
    checked = Checked(1, lambda kind: Replay(function, kind, frozenset), function, alignment=False)
    outputs, seeds = [], (1, 1, 2, 2)
    for _ in range(3):
        checked.entry(x)
    for seed in seeds:
        torch.cuda.manual_seed(seed)
        outputs.append([checked.entry(x).clone() for _ in range(3)])
    for seed, several in zip(seeds, outputs, strict=True):
        torch.cuda.manual_seed(seed)
        for output in several:
            assert torch.equal(output, function(x))
    straight = written_source(checked.entry.__code__)
    assert "native" in straight
    assert ("replay" in straight) == draws or not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph_exec")


def test_the_native_replay_is_used() -> None:
    assert native_replay() is not None
    inputs = inputs_of("two_kernels")
    direct = build_direct(one_call(load_idiom("two_kernels")), inputs)
    checked = Checked(
        len(inputs), lambda kind: Replay(direct, kind, direct.may_write), direct, alignment=False
    )
    for _ in range(3):
        checked.entry(*inputs)
    assert "native" in written_source(checked.entry.__code__)


def test_low_overhead_on_the_gpu() -> None:
    from pass_bench.kernels.launch import low_overhead

    kernel = load_idiom("add_relu_lambda_grid").add_relu_kernel
    fast = low_overhead(kernel)
    for call in range(20):
        n = 100 + call % 3
        x, y = torch.randn(2, n + 1, device="cuda")[:, call % 2 : n + call % 2]
        out = torch.zeros(n, device="cuda")
        grid = (lambda meta: ((meta["n_elements"] + 127) // 128,)) if call % 2 else (1,)
        fast[grid](x, y, out, n, BLOCK_SIZE=128)
        assert torch.equal(out, torch.relu(x + y))
    assert 3 <= len(fast.forms) <= 12
    assert None not in fast.forms.values()


def test_low_overhead_autotuned_on_the_gpu() -> None:
    from pass_bench.kernels.launch import low_overhead

    fast = low_overhead(load_idiom("autotuned").gated_kernel)
    for _ in range(4):
        g, u = torch.randn(2, 1000, device="cuda")
        out = torch.empty_like(u)
        fast[lambda meta: ((1000 + meta["BLOCK"] - 1) // meta["BLOCK"],)](g, u, out, 1000)
        torch.testing.assert_close(out, torch.sigmoid(g) * u)
    assert None not in fast.forms.values()


@pytest.mark.parametrize("compiler", ["inductor_direct", "inductor_reduce_overhead", "pass_mgr_graph"])
def test_compilers_agree_with_eager(compiler: str) -> None:
    from pass_bench.compilers import compiler_named

    class Model(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            y = torch.nn.functional.layer_norm(x, (32,), w)
            return (torch.relu(y) + x, y.transpose(0, 1))

    model = Model()
    inputs = [torch.randn(16, 32, device="cuda"), torch.randn(32, device="cuda")]
    call = compiler_named(compiler).compile(model, ("x", "w"), fresh_copies(inputs), [], "cuda").call  # type: ignore[arg-type]
    for _ in range(5):
        inputs[0].normal_()
        for actual, expected in zip(call(*inputs), model(*inputs), strict=True):
            torch.testing.assert_close(actual, expected)
