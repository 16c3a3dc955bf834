"""Which kernels a pass launches, and launching them with one left out."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

MAX_GHOSTS = 8  # kernels that are left out in turn; of more, so many are drawn


class KernelLog:
    """Counts launches by kernel within `watching`, in order of first launch; a silenced one does nothing."""

    def __init__(self) -> None:
        self.launches: dict[str, int] = {}
        self._silenced = ""
        self._cpp_kernels: list[Any] | None = None

    def _seen(self, name: str) -> bool:
        """Note a launch; say whether it is to be left out."""
        if not self._silenced:
            self.launches[name] = self.launches.get(name, 0) + 1
        return name == self._silenced

    @contextlib.contextmanager
    def watching(self, silenced: str = "") -> Iterator[None]:
        """Intercept Triton, C++ and CUDA launches of this process."""
        self._silenced = silenced
        with contextlib.ExitStack() as stack:
            for patch in (self._triton_interpreted, self._triton_compiled, self._cuda, self._cpp):
                stack.enter_context(patch())
            yield
        self._silenced = ""

    @contextlib.contextmanager
    def _triton_interpreted(self) -> Iterator[None]:
        try:
            from triton.runtime.interpreter import GridExecutor
        except ImportError:
            yield
            return
        with _method(GridExecutor, "__call__", lambda executor: f"triton {executor.fn.__name__}", self._seen):
            yield

    @contextlib.contextmanager
    def _triton_compiled(self) -> Iterator[None]:
        try:
            from triton.runtime.jit import JITFunction
        except ImportError:
            yield
            return
        with _method(JITFunction, "run", lambda kernel: f"triton {kernel.__name__}", self._seen):
            yield

    @contextlib.contextmanager
    def _cuda(self) -> Iterator[None]:
        """The last step in Python: a pass may keep `kernel[grid, block]`, a bound method, from before."""
        from pass_bench.kernels import cuda

        get = cuda._native_launch

        def watched() -> Callable[..., Any]:
            native = get()

            def launch(handle: int, *rest: Any) -> Any:
                *_, places, _ = rest
                name = places[0].partition(":")[0] if places else f"{handle:#x}"
                return None if self._seen(f"cuda {name}") else native(handle, *rest)

            return launch

        vars(cuda)["_native_launch"] = watched
        try:
            yield
        finally:
            vars(cuda)["_native_launch"] = get

    @contextlib.contextmanager
    def _cpp(self) -> Iterator[None]:
        """C++ kernels are partials that call native code at once: each object's function is exchanged."""
        changed: list[tuple[Any, Any]] = []
        if self._cpp_kernels is None:
            self._cpp_kernels = _cpp_kernels()
        for kernel in self._cpp_kernels:
            kernel.compile()
            native = kernel.func

            def launch(*args: Any, _native: Callable[..., Any] = native, _name: str = kernel.name) -> Any:
                return None if self._seen(f"cpp {_name}") else _native(*args)

            _exchange(kernel, launch)
            changed.append((kernel, native))
        try:
            yield
        finally:
            for kernel, native in changed:
                _exchange(kernel, native)


def _cpp_kernels() -> list[Any]:
    """All C++ kernels of the process, wherever a pass keeps them; looking at everything takes 30 ms.

    A list that kernels enter themselves in would be quicker, but a pass could take a decoy off it. Asking who
    refers to the class finds its instances and, unlike a list of all objects, writes to none of them: memory
    shared with the process that this one was forked from stays shared.
    """
    from pass_bench.kernels.cpp import CppKernel

    gc.unfreeze()  # what was set aside before the trials is not found otherwise
    kernels = [item for item in gc.get_referrers(*_with_subclasses(CppKernel)) if isinstance(item, CppKernel)]
    gc.freeze()
    return kernels


def _with_subclasses(kind: type) -> list[type]:
    found = [kind]
    for each in found:
        found += each.__subclasses__()
    return found


def _exchange(kernel: Any, function: Callable[..., Any]) -> None:
    kernel.__setstate__((function, (), {}, dict(kernel.__dict__)))


@contextlib.contextmanager
def _method(
    owner: type, name: str, named: Callable[[Any], str], seen: Callable[[str], bool]
) -> Iterator[None]:
    original = vars(owner).get(name)
    if original is None:
        yield
        return

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return None if seen(named(self)) else original(self, *args, **kwargs)

    setattr(owner, name, call)
    try:
        yield
    finally:
        setattr(owner, name, original)
