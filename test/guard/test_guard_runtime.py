"""The guards inside the child: what they see, one trick at a time."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pass_bench.guard import guarded_run as guarded_run_module
from pass_bench.guard.audit import Refill, nudge, ranges_of
from pass_bench.guard.audited_inputs import AuditedInputs, Recorder
from pass_bench.guard.dispatch import DispatchGuard, poison, replacement_codes
from pass_bench.guard.flags import changed_flags, read_flags
from pass_bench.guard.guarded_run import Baseline, guarded_run
from pass_bench.guard.kernel_log import KernelLog
from pass_bench.guard.watched_inputs import Keeper, WatchedInputs, copy_of
from pass_bench.kernels import cpp_kernel


@pytest.fixture(scope="module")
def double() -> Any:
    return cpp_kernel(
        "void twice(const float* x, float* y, int64_t n) {"
        "  for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }",
        "twice(const float* x, float* y, int64_t n)",
    )


def run(function: Callable[..., Any], eager: Callable[..., Any] = lambda x: 2 * x, **choices: Any) -> Any:
    """Guard a function of one tensor as if this file were the pass_dir."""
    x = torch.arange(8.0)
    return guarded_run(
        function,
        eager,
        lambda: [x.clone()],
        [function],
        [Path(__file__).parent],
        seed=1,
        device="cpu",
        **choices,
    )


def rules(seen: Any) -> list[str]:
    return [violation.rule for violation in seen.violations]


def test_an_honest_kernel_passes_and_is_named(double: Any) -> None:
    def fused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x).view(-1)
        double(x.contiguous(), out, x.numel())
        return out.view(x.shape)

    seen = run(fused)
    assert seen.violations == () and seen.kernels == ("cpp twice",)
    assert torch.equal(seen.outputs, 2 * torch.arange(8.0))


def test_a_torch_operator_is_located() -> None:
    def fused(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    (violation,) = run(fused).violations
    assert violation.rule == "torch-operator" and "mul" in violation.why
    assert violation.file == __file__ and violation.line == fused.__code__.co_firstlineno + 1


def test_operators_of_the_graph_around_a_pass_are_not_its_own() -> None:
    guard = DispatchGuard([Path("/nowhere")], [])
    with guard:
        torch.ones(3) * 2
    assert guard.operators == {}


def test_a_kernel_without_effect_is_a_decoy(double: Any) -> None:
    other = cpp_kernel(
        "void decoy(const float* x, float* y) { y[0] = x[0]; }", "decoy(const float* x, float* y)"
    )

    def fused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        other(x, out)
        double(x, out, x.numel())
        return out

    seen = run(fused)
    assert rules(seen) == ["decoy-kernel"] and "cpp decoy" in seen.violations[0].why


def test_a_decoy_cannot_hide_behind_others(double: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_run_module, "MAX_GHOSTS", 1)
    hidden = cpp_kernel(
        "void hidden(const float* x, float* y) { y[0] = 2 * x[0]; }", "hidden(const float* x, float* y)"
    )

    def fused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        double(x, out, x.numel())
        hidden(x, out)
        return out

    assert any(rules(run(fused)) == ["decoy-kernel"] for _ in range(30))  # by chance missed once in 2**30


def test_uninitialised_memory_is_poisoned(double: Any) -> None:
    def fused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        double(x, out, x.numel() - 1)
        return out

    assert torch.isnan(run(fused).outputs[-1])
    for dtype, expected in ((torch.int32, 2**31 - 1), (torch.bool, True)):
        memory = torch.zeros(2, dtype=dtype)
        poison(memory)
        assert memory.tolist() == [expected] * 2


def test_memory_that_two_calls_share_is_found(double: Any) -> None:
    kept = torch.empty(8)

    def fused(x: torch.Tensor) -> torch.Tensor:
        double(x, kept, x.numel())
        return kept

    assert "reused-output" in rules(run(fused))


def test_an_output_may_be_an_input_only_where_eager_says_so() -> None:
    def viewed(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 4)

    assert rules(run(viewed, eager=lambda x: x.reshape(2, 4))) == []
    assert rules(run(viewed, eager=lambda x: x.reshape(2, 4).clone())) == ["aliased-output"]


def test_late_work_is_seen(double: Any) -> None:
    def fused(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)

        def later() -> None:
            time.sleep(0.003)
            double(x, out, x.numel())

        threading.Thread(target=later).start()
        return out

    assert "late-work" in rules(run(fused, ghosts=False))


def test_a_replacement_must_be_a_function_of_the_pass() -> None:
    codes, violations = replacement_codes([torch.relu, torch.nn.functional.gelu], [Path("/pass_dir")])
    assert codes == [] and [v.rule for v in violations] == ["replacement-callable"] * 2


@pytest.fixture
def restored() -> Iterator[None]:
    before = torch.nn.functional.relu, time.perf_counter, torch.get_num_threads()
    yield
    torch.nn.functional.relu, time.perf_counter = before[:2]  # type: ignore[assignment]
    torch.set_num_threads(before[2])
    sys.setprofile(None)


def test_replaced_functions_threads_and_flags_are_named(restored: None) -> None:
    baseline = Baseline("torch.relu(x)")
    assert baseline.changes() == ()
    torch.nn.functional.relu = lambda x: x  # type: ignore[assignment]
    time.perf_counter = lambda: 0.0
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="burner")
    thread.start()
    torch.set_num_threads(torch.get_num_threads() + 1)
    try:
        found = {(v.rule, v.why.split(" ")[0]) for v in baseline.changes()}
    finally:
        stop.set()
        thread.join()
    assert {("patched", "torch.nn.functional.relu"), ("patched", "time.perf_counter")} <= found
    assert ("threads", "1") in found and ("flags", "torch") in found


def test_exchanged_code_is_seen(restored: None) -> None:
    from pass_bench.timing import clock

    baseline = Baseline("")
    before = clock.no_sync.__code__
    try:
        clock.no_sync.__code__ = (lambda: None).__code__
        (violation,) = baseline.changes()
    finally:
        clock.no_sync.__code__ = before
    assert violation.why == "pass_bench.timing.clock.no_sync was replaced"


def test_flags_tell_which_setting_changed() -> None:
    before = read_flags()
    gc.callbacks.append(print)  # type: ignore[arg-type]
    sys.setprofile(lambda *_: None)
    try:
        found = changed_flags(before, read_flags())
    finally:
        sys.setprofile(None)
        gc.callbacks.remove(print)  # type: ignore[arg-type]
    assert {v.why.split(":")[0] for v in found} == {"trace functions", "garbage collector"}


def test_silenced_kernels_come_back(double: Any) -> None:
    log = KernelLog()
    x, y = torch.ones(4), torch.zeros(4)
    with log.watching("cpp twice"):
        double(x, y, 4)
    assert y.tolist() == [0.0] * 4 and log.launches == {}
    with log.watching():
        double(x, y, 4)
    double(x, y, 4)
    assert y.tolist() == [2.0] * 4 and log.launches == {"cpp twice": 1}


def test_a_nudge_is_small_repeatable_and_within_range() -> None:
    one, other = [torch.linspace(-1, 3, 100), 5], [torch.linspace(-1, 3, 100), 5]
    assert nudge(one, 7) == nudge(other, 7) > 0
    changed = (one[0] != torch.linspace(-1, 3, 100)).sum()
    assert 1 <= changed <= 3 and torch.equal(one[0], other[0])
    assert one[0].min() >= -1 and one[0].max() <= 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_a_refill_moves_no_version_counter(dtype: torch.dtype) -> None:
    value = torch.tensor([0, 1, 1]).to(dtype)
    version, address = value._version, value.data_ptr()
    refill = Refill([value, 3])
    refill.fill([torch.tensor([1, 0, 0]).to(dtype), 3])
    assert value.tolist() == torch.tensor([1, 0, 0]).to(dtype).tolist()
    refill.restore()
    assert value.tolist() == torch.tensor([0, 1, 1]).to(dtype).tolist()
    assert (value._version, value.data_ptr()) == (version, address)


@pytest.mark.parametrize("modes", [("moved", "refilled"), ("refilled", "moved"), ("refilled", "refilled")])
def test_an_audited_round_is_kept_with_what_it_changed(modes: Any) -> None:
    values: list[Any] = [torch.arange(6.0), torch.zeros(2), 3]
    address, version = values[0].data_ptr(), values[0]._version
    draws: list[list[Any]] = [[torch.full((6,), 1.0 + i), torch.full((2,), float(i)), 3] for i in range(2)]
    refill = Refill(values)
    arms = [AuditedInputs(values, frozenset({1}), modes, draws, refill) for _ in range(2)]
    recorder = Recorder(1, draws)
    for number, mode in enumerate(modes):
        for place, arm in enumerate(arms):
            taken = arm.take()
            assert (taken[0].data_ptr() == address) == (mode == "refilled")
            assert taken[0].data_ptr() != draws[number][0].data_ptr()
            outputs = taken[0] + 10
            taken[1].add_(5)  # eager changes it too
            recorder.saw(place, outputs, taken)
            outputs.zero_()  # a copy is what was kept
    assert [kept.outputs.tolist() for kept in recorder.kept] == [[11.0] * 6, [12.0] * 6]
    changed = [{n: value.tolist() for n, value in kept.arguments.items()} for kept in recorder.kept]
    assert changed == [{1: [5.0] * 2}, {1: [6.0] * 2}]
    refill.restore()
    assert torch.equal(values[0], torch.arange(6.0)) and values[1].tolist() == [0, 0]
    assert (values[0].data_ptr(), values[0]._version) == (address, version)


def test_a_call_that_writes_to_what_eager_leaves_alone_shows_in_an_audit() -> None:
    draws = [[torch.ones(3)]]
    recorder = Recorder(0, draws)
    for mode in ("moved", "refilled"):
        values = [torch.zeros(3)]
        taken = AuditedInputs(values, frozenset(), (mode,), draws, Refill(values)).take()
        taken[0][1] = 7
        recorder.kept.clear()
        recorder.saw(0, None, taken)
        assert recorder.kept[0].arguments[0].tolist() == [1, 7, 1]
    assert draws[0][0].tolist() == [1, 1, 1]


def test_kernels_are_found_wherever_they_are_and_of_whatever_class(double: Any) -> None:
    class Odd(type(double)):  # type: ignore[misc]
        pass

    hidden = [Odd(double.source, "twice(const float* x, float* y, int64_t n)")]
    log = KernelLog()
    x, y = torch.ones(4), torch.zeros(4)
    gc.freeze()
    try:
        with log.watching():
            hidden[0](x, y, 4)
            double(x, y, 4)
    finally:
        gc.unfreeze()
    assert log.launches == {"cpp twice": 2} and y.tolist() == [2.0] * 4


def watched(values: list[Any], mutated: frozenset[int] = frozenset()) -> WatchedInputs:
    return WatchedInputs(values, mutated, (1, 2, 3, 4), ranges_of(values))


def test_watched_inputs_have_the_content_that_their_number_says() -> None:
    values: list[Any] = [torch.linspace(-1, 1, 200), torch.ones(3), torch.arange(4), 5]
    address, version = values[0].data_ptr(), values[0]._version
    inputs = watched(values)
    seen: dict[int, torch.Tensor] = {}
    for _ in range(300):
        taken = inputs.take()
        assert taken[0].data_ptr() == address and taken[3] == 5
        seen.setdefault(inputs.number, taken[0].clone())
        assert torch.equal(seen[inputs.number], taken[0])
    assert sorted(seen) == [0, 1, 2, 3, 4] and values[0]._version == version
    assert torch.equal(seen[0], torch.linspace(-1, 1, 200))
    for number in range(1, 5):
        expected = [torch.linspace(-1, 1, 200), torch.ones(3), torch.arange(4), 5]
        assert nudge(expected, number) == int((seen[number] != seen[0]).sum()) <= 3
        assert torch.equal(seen[number], expected[0])
    inputs.restore()
    assert torch.equal(values[0], seen[0]) and torch.equal(values[1], torch.ones(3))


def test_a_keeper_copies_some_calls_of_its_arm_and_notes_new_content() -> None:
    values: list[Any] = [torch.linspace(-1, 1, 200), torch.zeros(2)]
    kept_rounds: dict[int, int] = dict.fromkeys(range(6), 0)
    for _ in range(100):
        inputs = watched(values, frozenset({1}))
        keeper = Keeper(1, inputs, frozenset({1}), most=2)
        numbers = []
        for number in range(6):
            for place in (0, 1):
                taken = inputs.take()
                outputs = (taken[0] + number, [taken[1].add_(number)])
                keeper.saw(place, outputs, taken)
                outputs[0].zero_()  # a copy is what was kept
            numbers.append(inputs.number)
        assert len({int(kept.outputs[1][0][0]) for kept in keeper.kept}) == 2
        for kept in keeper.kept:
            first, (second,) = kept.outputs
            kept_rounds[int(second[0])] += 1
            assert kept.number == numbers[int(second[0])] and torch.equal(kept.arguments[1], second)
            assert second.data_ptr() != kept.arguments[1].data_ptr() and first.any()
        expected = [n for n in range(6) if numbers[n] != 0 and numbers[n] not in numbers[:n]]
        assert keeper.new_among_last(6) == tuple(expected)
        assert values[1].tolist() == [0, 0]
        inputs.restore()
    assert min(kept_rounds.values()) > 10  # 100 / 3 each on average, standard deviation below 5


def test_containers_with_code_of_their_own_are_not_opened() -> None:
    class Lazy(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[Any]:
            raise AssertionError("opened")

    lazy = Lazy((torch.ones(1),))
    copied = copy_of([lazy, {"a": torch.ones(1)}, 3, None])
    assert copied[0] is lazy and copied[1]["a"].tolist() == [1] and copied[2:] == [3, None]


def test_a_cuda_kernel_kept_with_its_grid_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from pass_bench.kernels import cuda

    launched: list[int] = []
    native = SimpleNamespace(launch=lambda handle, *rest: launched.append(handle))
    monkeypatch.setattr(cuda, "_native_launch", lambda: native.launch)
    monkeypatch.setattr(cuda, "_current_device", lambda name: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 7, raising=False)
    kernel = cuda.cuda_kernel("__global__ void f(float* x) {}", "f(float* x)")
    monkeypatch.setattr(kernel, "_load", lambda dtype, device: cuda.LoadedFunction(5, b""))
    kept = kernel[1, 32]
    log = KernelLog()
    with log.watching():
        kept(torch.empty(1))
    with log.watching("cuda f"):
        kept(torch.empty(1))
    kept(torch.empty(1))
    assert log.launches == {"cuda f": 1} and launched == [5, 5]


def test_types_without_an_order_are_left_alone() -> None:
    eighth = torch.ones(4).to(torch.float8_e4m3fn)
    values = [eighth, torch.tensor([1.0, 3.0]), torch.tensor([1 + 2j])]
    assert ranges_of(values) == {1: (1.0, 3.0)}
    assert nudge([eighth], 7) == 0
    inputs = WatchedInputs([eighth], frozenset(), (1, 2, 3, 4), ranges_of([eighth]))
    assert inputs.take()[0].data_ptr() == eighth.data_ptr()
