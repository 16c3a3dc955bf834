"""`low_overhead`: launch a Triton kernel for a few microseconds of host time instead of twenty to forty.

    add = low_overhead(add_kernel)          # or as a decorator above @triton.jit, autotune, heuristics
    add[(blocks,)](x, y, out, n, BLOCK=1024)

`pass_mgr_direct` plans the launches of a replacement function by itself, whatever way they are written; this
is for host code that cannot be planned, and for use outside of it. See docs/launching.md.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

MOST_FORMS = 64
STREAM_ARGUMENT = 3  # of the native launcher, after the three sizes of the grid
ALIGNMENT = 16

NativeCall = tuple[Any, Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class _Form:
    """A compiled kernel with its native launcher, and where in the launcher's arguments each of ours goes.

    `head`: what the launcher wants between the stream and the kernel's own arguments, which are `own` with
    the tensors left out; `places` are the positions of those, in the order of the call. `in_tuple`: they are
    handed over as one tuple.
    """

    native: Callable[..., Any]
    head: tuple[Any, ...]
    own: tuple[Any, ...]
    places: tuple[int, ...]
    in_tuple: bool


class Launcher:
    """A Triton kernel whose compiled forms are kept ready to launch; called like the kernel itself.

    A form is kept for every combination of scalars, dtypes and pointer alignments (shapes and strides too,
    where heuristics could look at them), the last `MOST_FORMS` of them; the first launch of each goes through
    Triton, and so does every launch that cannot be kept (interpreted, profiled, with hooks, scratch memory,
    tuples or descriptors). Launches go to torch's current stream. A callable grid is called at every launch.
    """

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.forms: OrderedDict[tuple[Any, ...], _Form | None] = OrderedDict()
        layers = list(_layers(kernel))
        self._names = tuple(inspect.signature(layers[-1].fn).parameters)
        self._by_shape = any(
            type(layer).__name__ == "Heuristics"
            or getattr(layer, "early_config_prune", None)
            or getattr(layer, "perf_model", None)
            for layer in layers
        )
        self._plain = type(layers[-1]).__name__ != "JITFunction" or any(
            config.pre_hook for layer in layers for config in getattr(layer, "configs", ())
        )
        self.__name__ = layers[-1].fn.__name__
        self.__doc__ = layers[-1].fn.__doc__ or self.__doc__

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return functools.partial(self.launch, grid)

    def launch(self, grid: Any, *args: Any, **kwargs: Any) -> None:
        """Launch on a grid (a tuple, or a function of the meta-parameters) with the kernel's arguments."""
        addresses: list[int] = []
        key = None if self._plain or _hooked() else self._key(args, kwargs, addresses)
        form = self.forms.get(key) if key is not None else None
        if form is None:
            if key is None or key in self.forms or self._innermost().pre_run_hooks:
                self.kernel[grid](*args, **kwargs)
            else:
                self._first(key, grid, args, kwargs)
            return
        own = list(form.own)
        for place, address in zip(form.places, addresses, strict=True):
            own[place] = address
        if callable(grid):
            grid = grid(self._meta(form, args, kwargs))
        assert key is not None
        sizes = (*grid, 1, 1)[:3]
        stream = torch._C._cuda_getCurrentRawStream(key[0])
        if form.in_tuple:
            form.native(*sizes, stream, *form.head, tuple(own))
        else:
            form.native(*sizes, stream, *form.head, *own)

    def _innermost(self) -> Any:
        return list(_layers(self.kernel))[-1]

    def _key(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], addresses: list[int]
    ) -> tuple[Any, ...] | None:
        """What a form depends on; the tensors' addresses are appended. None for arguments of other kinds."""
        parts: list[Any] = [torch._C._cuda_getDevice()]
        named = [(name, kwargs[name]) for name in sorted(kwargs)] if kwargs else []
        for value in (*args, *(value for _, value in named)):
            if isinstance(value, torch.Tensor):
                address = value.data_ptr()
                addresses.append(address)
                parts.append((value.dtype, address % ALIGNMENT == 0, value.is_cuda))
                if self._by_shape:
                    parts += [value.shape, value.stride()]
            elif value.__class__ is float:
                parts.append(value.hex())  # tells -0.0 from 0.0, and NaN equals NaN
            elif value is None or isinstance(value, (int, str, torch.dtype)):
                parts += [value.__class__, value]
            elif value.__class__.__module__.startswith("triton.language") and not hasattr(value, "data_ptr"):
                parts.append(repr(value))
            else:
                return None
        parts += [name for name, _ in named]
        return tuple(parts)

    def _meta(self, form: _Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """What a callable grid is given: every argument of the kernel by name."""
        meta = dict(zip(self._names, form.own, strict=True))
        meta.update(zip(self._names, args, strict=False))
        meta.update((name, value) for name, value in kwargs.items() if name in meta)
        return meta

    def _first(self, key: tuple[Any, ...], grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Launch through Triton and keep what reached the native launcher, if all of it is understood."""
        with _native_calls() as calls:
            self.kernel[grid](*args, **kwargs)
        named = [*zip(self._names, args, strict=False), *sorted(kwargs.items())]
        tensors = [(name, value) for name, value in named if isinstance(value, torch.Tensor)]
        self.forms[key] = _form(calls[-1], tensors, self._names) if calls else None
        if len(self.forms) > MOST_FORMS:
            self.forms.popitem(last=False)


def low_overhead(kernel: Any) -> Launcher:
    """Wrap a Triton kernel (jit, autotune, heuristics) so that later launches cost a few microseconds.

    Where Triton is interpreted it launches as ever.
    """
    return Launcher(kernel)


def _layers(kernel: Any) -> Iterator[Any]:
    """The kernel with its decorators, outermost first."""
    yield kernel
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        kernel = kernel.fn
        yield kernel


@contextmanager
def _native_calls() -> Iterator[list[NativeCall]]:
    """Collect what reaches native launchers; the last call is the one asked for, others are autotuning."""
    from triton.backends.nvidia.driver import CudaLauncher

    calls: list[NativeCall] = []
    original = CudaLauncher.__call__

    def seen(launcher: Any, *args: Any, **kwargs: Any) -> Any:
        native = launcher.launch

        def noted(*native_args: Any) -> Any:
            calls.append((launcher, native, native_args))
            return native(*native_args)

        launcher.launch = noted
        try:
            return original(launcher, *args, **kwargs)
        finally:
            launcher.launch = native

    CudaLauncher.__call__ = seen
    try:
        yield calls
    finally:
        CudaLauncher.__call__ = original


def _form(call: NativeCall, tensors: list[tuple[str, torch.Tensor]], names: tuple[str, ...]) -> _Form | None:
    """A native call taken apart; None if it cannot be repeated with other addresses."""
    launcher, native, arguments = call
    in_tuple = hasattr(launcher, "arg_annotations")
    own = arguments[-1] if in_tuple else arguments[len(arguments) - len(names) :]
    head = arguments[STREAM_ARGUMENT + 1 : len(arguments) - (1 if in_tuple else len(names))]
    places = tuple(names.index(name) for name, _ in tensors)
    understood = (
        not any(getattr(launcher, f"{kind}_scratch_size", 0) for kind in ("global", "profile"))
        and not getattr(launcher, "gsan_enabled", False)
        and len(own) == len(names)
        and all(own[place] is tensor for place, (_, tensor) in zip(places, tensors, strict=True))
        and not any(hasattr(x, "data_ptr") or isinstance(x, tuple) for x in _others(own, places))
    )
    if not understood:
        return None
    return _Form(
        native,
        tuple(None if _is_hook(value) else value for value in head),
        tuple(None if at in places else value for at, value in enumerate(own)),
        places,
        in_tuple,
    )


def _others(own: tuple[Any, ...], places: tuple[int, ...]) -> list[Any]:
    return [value for at, value in enumerate(own) if at not in places]


def _hooks() -> tuple[Any, Any]:
    from triton import knobs

    return knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook


def _hooked() -> bool:
    """Whether a profiler wants to see every launch."""
    return any(hook is not None and bool(getattr(hook, "calls", True)) for hook in _hooks())


def _is_hook(value: Any) -> bool:
    return any(value is hook for hook in _hooks()) or type(value).__name__ == "LazyDict"
