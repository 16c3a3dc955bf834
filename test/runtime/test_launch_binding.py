"""What reaches Triton's native launcher is what a plan repeats; the launcher here only takes notes."""

from __future__ import annotations

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
    monkeypatch.setattr(driver.CudaLauncher, "__call__", request.param)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: made.stream, raising=False)
    yield made


def new_launcher(machine: Machine, scratch: int = 0) -> Any:
    launcher = object.__new__(driver.CudaLauncher)
    launcher.launch = machine.native
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
