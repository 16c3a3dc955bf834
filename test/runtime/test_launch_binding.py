"""What reaches Triton's native launcher is what a plan repeats; the launcher here only takes notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
import torch

from pass_bench.runtime import launches
from pass_bench.runtime.emit import Source, compile_function
from pass_bench.runtime.plan import CurrentStream, Slot, same, slots_in
from pass_bench.runtime.record import record
from pass_bench.runtime.write_plan import PlanWriter

driver = pytest.importorskip("triton.backends.nvidia.driver")
FUNCTION = 0xF00


class Machine:
    """A device with one native launcher; `calls` are the arguments that reached it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.stream = 11
        self.nested = False

    def native(self, *args: Any) -> None:
        self.calls.append(args)


def flat_layout(self: Any, x: int, y: int, z: int, stream: int, function: int, *args: Any) -> None:
    """The kernel's arguments follow the launcher's own, one by one: Triton up to 3.8."""
    self.launch(x, y, z, stream, function, False, False, None, None, *args)


def nested_layout(self: Any, x: int, y: int, z: int, stream: int, function: int, *args: Any) -> None:
    """The kernel's arguments come last, as one tuple: Triton from 3.9."""
    metadata, launch_metadata, enter, leave, *own = args
    hooks = launch_metadata, enter, leave
    self.launch(
        *(x, y, z, stream, function, False, False, metadata, *hooks, None, None),
        self.arg_annotations,
        b"sig",
        tuple(own),
    )


@pytest.fixture(params=[flat_layout, nested_layout])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    made = Machine()
    made.nested = request.param is nested_layout
    monkeypatch.setattr(driver.CudaLauncher, "__call__", request.param)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: made.stream, raising=False)
    yield made


def new_launcher(machine: Machine, scratch: int = 0) -> Any:
    launcher = object.__new__(driver.CudaLauncher)
    launcher.launch = machine.native
    if machine.nested:
        launcher.arg_annotations = [object(), object()]
    launcher.global_scratch_size = scratch
    launcher.profile_scratch_size = 0
    return launcher


def launch(launcher: Any, machine: Machine, grid: int, *args: Any) -> None:
    """What JITFunction.run does in the end."""
    enter, leave = launches.hook_chains()
    metadata = LazyDict()
    launcher(grid, 1, 1, machine.stream, FUNCTION, (4, 1, 0), metadata, enter, leave, *args)


class LazyDict:
    """Named as what Triton makes for its hooks at every launch."""


def kernel_arguments(call: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    return call[-1] if isinstance(call[-1], tuple) else call[-count:]


def run_written(plan: Any, tensors: list[torch.Tensor]) -> Any:
    """Write a plan as the body of a function of its tensors, and call it."""
    source = Source(prefix="_t_")
    names = [source.local(f"x{i}") for i in range(len(tensors))]
    writer = PlanWriter(source, plan, names, {})
    result = writer.write()
    source.lines.append(f"return {source.literal(result, writer.name_of)}")
    code = compile_function("planned", names, source.lines, "test-plan")
    return FunctionType(code, dict(source.bound), "planned")(*tensors)


def function_with(launcher: Any, machine: Machine) -> Callable[..., Any]:
    def function(x: torch.Tensor, s: float) -> torch.Tensor:
        out = torch.empty_like(x)
        launch(launcher, machine, x.numel() // 4, x.view(-1)[2:], out, x.numel(), s, None, 64)
        return out

    return function


def test_tensors_become_addresses_and_the_stream_is_asked_for(machine: Machine) -> None:
    function = function_with(new_launcher(machine), machine)
    x = torch.zeros(4, 8)
    _, plan, refused = record(function, (x, 2.5))
    assert refused == "" and plan is not None
    machine.calls.clear()
    machine.stream = 22
    y = torch.zeros(4, 8)
    out = run_written(plan, [y])
    (call,) = machine.calls
    assert call[:5] == (8, 1, 1, 22, FUNCTION)
    assert kernel_arguments(call, 6) == (y.data_ptr() + 8, out.data_ptr(), 32, 2.5, None, 64)
    assert out.shape == (4, 8)
    assert not any(type(value).__name__ in ("LazyDict", "HookChain") for value in call)


def test_a_view_of_a_fresh_tensor_is_allocated_as_such(machine: Machine) -> None:
    launcher = new_launcher(machine)

    def function(x: torch.Tensor) -> torch.Tensor:
        flat = torch.empty_like(x.reshape(-1))
        launch(launcher, machine, 1, x.view(-1), flat, flat[4:])
        return flat.view(8, 4).t()

    _, plan, refused = record(function, (torch.zeros(4, 8),))
    assert refused == "" and plan is not None
    source = Source(prefix="_t_")
    writer = PlanWriter(source, plan, [source.local("x0")], {})
    writer.write()
    calls = [re.sub(r"\w+ = |_\d+\(.*|\(.*", "", line) for line in source.lines]
    assert calls == ["_t_empty_cpu", "_t_current_stream", "x0.data_ptr", "t.data_ptr", "_t_launch_native"]
    machine.calls.clear()
    y = torch.zeros(4, 8)
    out = run_written(plan, [y])
    assert kernel_arguments(machine.calls[0], 3) == (y.data_ptr(), out.data_ptr(), out.data_ptr() + 16)
    assert (out.shape, out.stride(), out.storage_offset()) == ((4, 8), (1, 4), 0)
    assert out.untyped_storage().nbytes() == 128


def test_two_recordings_are_the_same_plan_and_other_sizes_are_not(machine: Machine) -> None:
    function = function_with(new_launcher(machine), machine)
    plans = [
        record(function, (torch.zeros(4, n), s))[1] for n, s in [(8, 2.5), (8, 2.5), (16, 2.5), (8, 0.5)]
    ]
    assert same(plans[0], plans[1])
    assert not same(plans[0], plans[2])
    assert not same(plans[0], plans[3])


def test_only_the_argument_whose_address_counts_must_be_aligned(machine: Machine) -> None:
    launcher = new_launcher(machine)

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + 1
        launch(launcher, machine, 1, z, y)
        return z

    plan = record(function, (torch.zeros(4), torch.zeros(4)))[1]
    assert plan is not None
    assert plan.aligned_arguments() == {Slot(1)}
    assert plan.devices() == {0}


def test_scratch_memory_is_left_to_the_launcher(machine: Machine) -> None:
    launcher = new_launcher(machine, scratch=128)
    _, plan, refused = record(function_with(launcher, machine), (torch.zeros(4, 8), 1.0))
    assert refused == "" and plan is not None
    step = plan.steps[-1]
    assert step.function is launcher
    assert step.args[3] == CurrentStream(0)
    assert len(list(slots_in(step.args))) == 2


def test_an_installed_hook_forbids_a_plan(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = SimpleNamespace(calls=[print])
    monkeypatch.setattr(launches, "hook_chains", lambda: [hook, hook])
    _, plan, refused = record(function_with(new_launcher(machine), machine), (torch.zeros(4, 8), 1.0))
    assert plan is None
    assert refused == "runs while a Triton launch hook is installed"


def test_descriptors_are_made_anew_for_each_call(machine: Machine) -> None:
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    launcher = new_launcher(machine)

    def function(x: torch.Tensor) -> None:
        launch(launcher, machine, 1, descriptors.TensorDescriptor.from_tensor(x, [4, 16]), 3)

    x, y = torch.zeros(8, 32), torch.zeros(8, 32)
    _, plan, refused = record(function, (x,))
    assert refused == "" and plan is not None
    machine.calls.clear()
    run_written(plan, [y])
    made, three = kernel_arguments(machine.calls[0], 2)
    assert made.base is y
    assert (list(made.shape), list(made.block_shape), three) == ([8, 32], [4, 16], 3)


def jit_run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    """Stands in for JITFunction.run: asks for addresses from code without a module, like Triton's binder."""
    space: dict[str, Any] = {}
    exec("def binder(*args):\n    return [getattr(x, 'data_ptr', int)() % 16 for x in args]", space)
    space["binder"](*args)
    sizes = grid({"n": args[2]}) if callable(grid) else grid
    launch(self.launcher, self.machine, sizes[0], *args)


def test_what_triton_asks_of_its_arguments_is_not_held_against_the_author(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.runtime.jit import JITFunction

    monkeypatch.setattr(JITFunction, "run", jit_run)
    kernel = object.__new__(JITFunction)
    kernel.launcher, kernel.machine = new_launcher(machine), machine  # type: ignore[attr-defined]

    def function(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel[lambda meta: (meta["n"] // x.shape[0],)](x, out, x.numel())
        return out

    def peeking(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel[lambda meta: (1 + x.data_ptr() % 32,)](x, out, x.numel())
        return out

    _, plan, refused = record(function, (torch.zeros(4, 8),))
    assert refused == "" and plan is not None
    assert plan.steps[-1].args[:3] == (8, 1, 1)
    assert (
        record(peeking, (torch.zeros(4, 8),))[2] == "takes a value from data_ptr(), which may depend on data"
    )


class FakeKernel:
    """Takes the place of a compiled Triton kernel: launches through a CudaLauncher, counts how often."""

    def __init__(self, launcher: Any, machine: Machine) -> None:
        self.fn = _signature_only
        self.pre_run_hooks: list[Any] = []
        self.launcher, self.machine = launcher, machine
        self.launches = 0

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def run(x: Any, y: Any, n: int, s: float = 1.0, BLOCK: int = 64) -> None:
            self.launches += 1
            named = {"x": x, "y": y, "n": n, "s": s, "BLOCK": BLOCK}
            size = (grid(named) if callable(grid) else grid)[0]
            launch(self.launcher, self.machine, size, x, y, n, s, BLOCK)

        return run


FakeKernel.__name__ = "JITFunction"


def _signature_only(x: Any, y: Any, n: int, s: float = 1.0, BLOCK: int = 64) -> None:
    """The kernel's parameters."""


def test_low_overhead_launches_without_triton_after_the_first(machine: Machine) -> None:
    from pass_bench.kernels.launch import low_overhead

    kernel = FakeKernel(new_launcher(machine), machine)
    fast = low_overhead(kernel)
    x, y, z = torch.zeros(8), torch.zeros(8), torch.zeros(8)
    for tensors in ((x, y), (z, z), (y, x)):
        machine.calls.clear()
        machine.stream += 1
        fast[lambda meta: (meta["n"] // 2, 3)](*tensors, 8, BLOCK=32)
        (call,) = machine.calls
        own = kernel_arguments(call, 5)
        assert call[:1] + call[3:5] == (4, machine.stream, FUNCTION)
        assert own[2:] == (8, 1.0, 32)
        addresses = [t.data_ptr() if isinstance(t, torch.Tensor) else t for t in own[:2]]
        assert addresses == [t.data_ptr() for t in tensors]
    assert kernel.launches == 1
    fast[(1,)](x, y, 8, 2.0, BLOCK=32)  # another scalar
    fast[(1,)](x[1:], y, 8, 2.0, BLOCK=32)  # another alignment
    fast[(1,)](x.half(), y, 8, 2.0, BLOCK=32)  # another dtype
    assert kernel.launches == 4
    fast[(1,)](y=y, x=x, n=8, s=-0.0)
    fast[(1,)](y=y, x=z, n=8, s=-0.0)
    assert kernel.launches == 5
    fast[(1,)](y=y, x=x, n=8, s=0.0)
    assert kernel.launches == 6
    assert len(fast.forms) == 6


def test_low_overhead_keeps_a_bounded_number_of_forms(machine: Machine) -> None:
    from pass_bench.kernels import launch as launching

    kernel = FakeKernel(new_launcher(machine), machine)
    fast = launching.low_overhead(kernel)
    x = torch.zeros(8)
    for n in range(100):
        fast[(1,)](x, x, n)
    assert len(fast.forms) == launching.MOST_FORMS
    assert kernel.launches == 100


def test_low_overhead_leaves_to_triton_what_it_does_not_understand(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pass_bench.kernels import launch as launching

    kernel = FakeKernel(new_launcher(machine, scratch=64), machine)
    fast = launching.low_overhead(kernel)
    x = torch.zeros(8)
    for _ in range(3):
        fast[(1,)](x, x, 8)
    assert kernel.launches == 3
    plain = FakeKernel(new_launcher(machine), machine)
    fast = launching.low_overhead(plain)
    fast[(1,)](x, x, 8)
    hook = SimpleNamespace(calls=[print])
    monkeypatch.setattr(launching, "_hooks", lambda: (hook, hook))
    fast[(1,)](x, x, 8)
    fast[(1,)](x, [x], 8)
    assert plain.launches == 3
