"""The few calls of the CUDA driver that load and launch a cubin."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.extension import INCLUDE, CompilerFailed, build_extension

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@functools.cache
def driver() -> ctypes.CDLL:
    """libcuda; raises HarnessFailure where there is no NVIDIA driver."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise HarnessFailure(f"no NVIDIA driver: {error}") from None


def load_function(cubin: bytes, name: str) -> int:
    """Load a cubin into the current context and return the address of its function `name`."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check("cuModuleLoadData", driver().cuModuleLoadData(ctypes.byref(module), cubin))
    found = driver().cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    _check("cuModuleGetFunction", found)
    assert function.value is not None
    return function.value


def allow_shared_memory(function: int, size: int) -> None:
    """Let a function use `size` bytes of dynamic shared memory (more than 48 KiB must be asked for)."""
    set_attribute = driver().cuFuncSetAttribute
    _check("cuFuncSetAttribute", set_attribute(ctypes.c_void_p(function), MAX_DYNAMIC_SHARED, size))


@functools.cache
def launcher() -> Any:
    """The native module whose `launch` reads Python arguments and calls cuLaunchKernel."""
    text = Path(INCLUDE / "pn_launch.cpp").read_text()
    try:
        module = build_extension("cuda_launch", text)
    except CompilerFailed as failed:
        raise HarnessFailure(f"the CUDA launcher does not compile: {failed.log[:300]}") from None
    module.set_driver(ctypes.cast(driver().cuLaunchKernel, ctypes.c_void_p).value)
    return module


def _check(what: str, result: int) -> None:
    if result:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(result, ctypes.byref(text))
        raise HarnessFailure(f"{what}: {(text.value or b'unknown error').decode()} ({result})")
