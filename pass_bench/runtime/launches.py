"""See the kernel launches of Triton and of pass_bench.kernels while a recorder runs.

For the time of a recording the classes through which every launch goes are wrapped, whatever way it is
written. A launch runs as it is; what reached the launcher in the end (the C function, its arguments) becomes
the step of the plan, so that nothing here depends on how a version of Triton lays out those arguments.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from pass_bench.runtime.plan import Constant, CurrentStream

if TYPE_CHECKING:
    from pass_bench.runtime.record import Recorder

STREAM_ARGUMENT = 3  # after the three sizes of the grid, in every version
_recording = threading.RLock()


@contextmanager
def launches_seen_by(recorder: Recorder) -> Iterator[None]:
    """Report every launch of this thread to `recorder`; one recording at a time."""
    thread = threading.get_ident()
    with _recording, ExitStack() as stack:
        for owner, name, wrap in _places():
            original = vars(owner).get(name)
            target = original if original is not None else getattr(owner, name)

            def replacement(*args: Any, _wrap: Any = wrap, _target: Any = target, **kwargs: Any) -> Any:
                if threading.get_ident() != thread:
                    return _target(*args, **kwargs)
                return _wrap(recorder, _target, *args, **kwargs)

            setattr(owner, name, replacement)
            if original is None:
                stack.callback(delattr, owner, name)
            else:
                stack.callback(setattr, owner, name, original)
        yield


def _places() -> list[tuple[type, str, Callable[..., Any]]]:
    places: list[tuple[type, str, Callable[..., Any]]] = []
    if "triton" in sys.modules:
        from triton.runtime.interpreter import GridExecutor
        from triton.runtime.jit import JITFunction

        places.append((GridExecutor, "__call__", _interpreted))
        places.append((JITFunction, "run", _compiled))
    if (driver := sys.modules.get("triton.backends.nvidia.driver")) is not None:
        places.append((driver.CudaLauncher, "__call__", _triton_cuda))
    if (cpp := sys.modules.get("pass_bench.kernels.cpp")) is not None:
        places.append((cpp.CppKernel, "__call__", _cpp))
    if (cuda := sys.modules.get("pass_bench.kernels.cuda")) is not None:
        places.append((cuda.CudaKernel, "launch", _cuda))
    if (own := sys.modules.get("pass_bench.kernels.launch")) is not None:
        places.append((own.Launcher, "launch", _low_overhead))
    return places


def _low_overhead(
    recorder: Recorder, original: Any, launcher: Any, grid: Any, *args: Any, **kwargs: Any
) -> None:
    """While recording, a kernel of `low_overhead` goes through Triton like any other."""
    launcher.kernel[grid](*args, **kwargs)


def _compiled(recorder: Recorder, original: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """What Triton asks of the arguments (dtypes, addresses) is its own business; the grid is the author's."""
    grid = kwargs.get("grid")
    if callable(grid):

        def seen(meta: Any) -> Any:
            with recorder.paused(False):
                return grid(meta)

        kwargs["grid"] = seen
    with recorder.paused():
        return original(kernel, *args, **kwargs)


class InterpretedLaunch:
    """One kernel under Triton's interpreter with its grid settled."""

    def __init__(self, executor: Any, grid: tuple[int, ...]) -> None:
        self.executor = copy.copy(executor)
        self.executor.grid = grid
        self.key = (
            executor.fn,
            grid,
            tuple(executor.arg_names),
            tuple(getattr(executor, "pre_run_hooks", ())),
        )
        self.__name__ = getattr(executor.fn, "__name__", "kernel")

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.executor(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InterpretedLaunch) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _interpreted(recorder: Recorder, original: Any, executor: Any, *args: Any, **kwargs: Any) -> Any:
    grids: list[Any] = []
    plain_grid = executor.grid

    def evaluated(arguments: Any) -> Any:
        with recorder.paused(False):
            grid = plain_grid(arguments) if callable(plain_grid) else plain_grid
        grids.append(grid)
        return grid

    executor.grid = evaluated
    try:
        with recorder.paused():
            result = original(executor, *args, **kwargs)
    finally:
        executor.grid = plain_grid
    if not grids:  # a warm-up: nothing ran
        return result
    if not all(type(size) is int for size in grids[0]):
        recorder.refuse("launches a grid that is not made of ints")
        return result
    launch = InterpretedLaunch(executor, tuple(grids[0]))
    recorder.launched(launch, args, kwargs, by_pointer=True, aligned=True)
    return result


def _triton_cuda(recorder: Recorder, original: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
    reached: list[tuple[Any, ...]] = []
    native = launcher.launch

    def seen(*native_args: Any) -> Any:
        reached.append(native_args)
        return native(*native_args)

    launcher.launch = seen
    try:
        with recorder.paused():
            result = original(launcher, *args, **kwargs)
    finally:
        launcher.launch = native
    if hooks_installed():
        recorder.refuse("runs while a Triton launch hook is installed")
    elif len(reached) != 1 or kwargs or getattr(launcher, "gsan_enabled", False):
        recorder.refuse("launches in a way that is not known")
    else:
        scratch = any(getattr(launcher, f"{kind}_scratch_size", 0) > 0 for kind in ("global", "profile"))
        function, arguments = (launcher, args) if scratch else (native, reached[0])
        device = _current_device()
        recorder.launched(
            function,
            [
                CurrentStream(device) if i == STREAM_ARGUMENT else without_hooks(argument)
                for i, argument in enumerate(arguments)
            ],
            device=device,
            by_address=True,
            aligned=True,
        )
    return result


def hook_chains() -> list[Any]:
    """Triton's launch hooks: chains, or None where this version has plain hooks and none is set."""
    import triton.knobs

    return [triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook]


def hooks_installed() -> bool:
    """Whether anything wants to be called at every launch."""
    return any(hook is not None and bool(getattr(hook, "calls", True)) for hook in hook_chains())


def without_hooks(argument: Any) -> Any:
    """A launch argument, None for the empty hook chains and for the metadata made for them."""
    if any(argument is hook for hook in hook_chains()) or type(argument).__name__ == "LazyDict":
        return None
    return Constant(argument) if type(argument) is list else argument


def _current_device() -> int:
    import torch

    return int(torch._C._cuda_getDevice())


def _cpp(recorder: Recorder, original: Any, kernel: Any, *args: Any) -> Any:
    kernel.compile()
    with recorder.paused():
        result = original(kernel, *args)
    recorder.launched(kernel.func, args, by_pointer=_takes_pointers(kernel))
    return result


def _takes_pointers(kernel: Any) -> bool:
    """Whether a kernel of ours sees nothing of its tensors but their addresses."""
    return all(p.kind == "pointer" for p in kernel.signature.parameters if p.is_tensor)


def _cuda(recorder: Recorder, original: Any, kernel: Any, grid: Any, block: Any, *rest: Any) -> Any:
    from pass_bench.kernels import cuda

    reached: list[tuple[Any, ...]] = []
    native = cuda._native_launch()

    def seen(*native_args: Any) -> Any:
        reached.append(native_args)
        return native(*native_args)

    before = cuda._native_launch
    setattr(cuda, "_native_launch", lambda: seen)  # noqa: B010
    try:
        with recorder.paused():
            result = original(kernel, grid, block, *rest)
    finally:
        setattr(cuda, "_native_launch", before)  # noqa: B010
    function, device, _stream, *others = reached[0]
    arguments = [function, device, CurrentStream(device), *others]
    recorder.launched(native, arguments, device=device, by_pointer=_takes_pointers(kernel))
    return result
