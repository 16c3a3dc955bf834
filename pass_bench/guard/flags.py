"""Settings of the process that decide how fast or how exactly eager runs."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pass_bench.results.records import Violation

_PERSISTING_L2 = 6  # cudaLimitPersistingL2CacheSize


def read_flags(code: str = "") -> dict[str, Any]:
    """The settings in force now; `code` is the graph's, whose operators' registrations are read too."""
    flags: dict[str, Any] = {
        "torch threads": torch.get_num_threads(),
        "torch interop threads": torch.get_num_interop_threads(),
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "flush denormal": 5e-324 * 1.0 == 0.0,
        "rounding": (1.0 + 2.0**-53 == 1.0, 1.0 + 3 * 2.0**-54 == 1.0 + 2.0**-52),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "function modes": torch._C._len_torch_function_stack(),
        "cudnn": _backend(torch.backends.cudnn, "enabled", "benchmark", "deterministic", "allow_tf32"),
        "mkldnn": _backend(torch.backends.mkldnn, "enabled", "deterministic"),
        "nnpack": _nnpack(),
        "sdp": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.mem_efficient_sdp_enabled()),
        "tf32": _backend(torch.backends.cuda.matmul, "allow_tf32", "allow_fp16_reduced_precision_reduction"),
        "cpu affinity": frozenset(os.sched_getaffinity(0)),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "switch interval": sys.getswitchinterval(),
        "trace functions": (sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile()),
        "import hooks": (_others(sys.meta_path), _others(sys.path_hooks)),
        "garbage collector": (tuple(map(id, gc.callbacks)), gc.get_threshold(), gc.isenabled()),
        "signal handlers": tuple(_handler(number) for number in range(1, 32)),
        "timers": tuple(_timer(which) for which in (0, 1, 2)),
        "current stream": _stream(),
        "L2 set aside": _persisting_l2(),
    }
    for name in operators_of(code):
        with contextlib.suppress(RuntimeError):
            flags[f"kernels of {name}"] = torch._C._dispatch_dump(name)
    return flags


def changed_flags(before: dict[str, Any], after: dict[str, Any]) -> tuple[Violation, ...]:
    """One violation for each setting that is not what it was."""
    return tuple(
        Violation(rule="flags", why=_words(name, value, after.get(name)))
        for name, value in before.items()
        if after.get(name) != value
    )


def operators_of(code: str) -> tuple[str, ...]:
    """Names of the aten operators that the text of a graph can call, from its words."""
    words = {word.removesuffix("_") for word in re.findall(r"\w+", code)} | {
        "add",
        "mul",
        "copy_",
        "empty_like",
    }
    return tuple(
        sorted(
            name
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and name[6:].split(".")[0].rstrip("_").removeprefix("_") in words
        )
    )


def python_threads() -> list[threading.Thread]:
    """Threads that Python knows of, less the monitor of progress bars."""
    return [thread for thread in threading.enumerate() if not _defined_in(thread, "tqdm._monitor")]


def _others(hooks: Sequence[Any]) -> tuple[int, ...]:
    """Identities of import hooks that are not the harness's own."""
    own = "pass_bench.passes.importing"
    return tuple(id(hook) for hook in hooks if not _defined_in(hook, own))


def _defined_in(value: Any, module_name: str) -> bool:
    """Whether a value's class is one that the module of that name really holds."""
    module = sys.modules.get(module_name)
    kind = type(value)
    return kind.__module__ == module_name and module is not None and vars(module).get(kind.__name__) is kind


def _words(name: str, before: Any, after: Any) -> str:
    if name.startswith("kernels of "):
        return f"the {name} were replaced"
    shown = [str(value) if len(str(value)) < 60 else "…" for value in (before, after)]
    return f"{name}: {shown[0]} became {shown[1]}"


def _backend(module: Any, *names: str) -> tuple[Any, ...]:
    values = []
    for name in names:
        try:
            values.append(getattr(module, name, None))
        except (RuntimeError, AttributeError, AssertionError):
            values.append(None)
    return tuple(values)


def _nnpack() -> bool | None:
    try:
        return bool(torch._C._get_nnpack_enabled())  # type: ignore[attr-defined]
    except AttributeError:
        return None


def _handler(number: int) -> Any:
    try:
        return signal.getsignal(number)
    except ValueError:
        return None


def _timer(which: int) -> tuple[bool, float]:
    left, interval = signal.getitimer(which)
    return left > 0, interval


def _stream() -> int:
    if not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.current_stream().cuda_stream)


def _persisting_l2() -> int | None:
    """Bytes of L2 cache set aside on the current GPU, None without one or without the runtime library."""
    if not torch.cuda.is_initialized():
        return None
    libraries = set(re.findall(r"/\S*libcudart\S*", Path("/proc/self/maps").read_text()))
    size = ctypes.c_size_t()
    for library in sorted(libraries):
        with contextlib.suppress(OSError, AttributeError):
            if ctypes.CDLL(library).cudaDeviceGetLimit(ctypes.byref(size), _PERSISTING_L2) == 0:
                return size.value
    return None
