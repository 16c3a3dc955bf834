"""Compile C++ into a cached CPython extension module that can read tensors without torch headers."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.cpp_stub import DLPACK_CODES
from pass_bench.kernels.kernel_cache import cached_file, content_key

INCLUDE = Path(__file__).parent / "include"
# Contraction is off so that a product is rounded where it is written, as eager's own operator rounds it.
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp", "-ffp-contract=off", "-fno-math-errno",
    "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-psabi",
)  # fmt: skip


class CompilerFailed(Exception):
    """The compiler refused the text; `log` is what it said."""

    def __init__(self, log: str):
        self.log = log
        super().__init__(log)


def build_extension(name: str, text: str) -> Any:
    """Compile `text`, which defines the module `pn_module` with pn_stub.h's `bind`, and load it for use.

    Raises CompilerFailed; HarnessFailure where there is no compiler.
    """
    path, version = compiler()
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    headers = [header.read_bytes() for header in sorted(INCLUDE.glob("*.h"))]
    key = content_key(text, " ".join(FLAGS), path, version, _cpu_identity(), suffix, *headers)

    def build(target: Path) -> None:
        unit = target.with_suffix(".cpp")
        unit.write_text(text)
        includes = [f"-I{INCLUDE}", f"-I{sysconfig.get_paths()['include']}"]
        command = [path, *FLAGS, *includes, str(unit), "-o", str(target)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=target.parent)
        if ran.returncode:
            raise CompilerFailed(ran.stderr)

    return _load(cached_file(f"{name}-{key}.so", build))


@functools.cache
def compiler() -> tuple[str, str]:
    """The C++ compiler ($CXX, g++, c++ or clang++) and its version; raises HarnessFailure without one."""
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (path := shutil.which(name)):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, version.split("\n")[0]
    raise HarnessFailure("no C++ compiler found: C++ kernels need g++ or clang++ (or $CXX)")


@functools.cache
def _cpu_identity() -> str:
    """What `-march=native` depends on: the processor's model and flags."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return sysconfig.get_platform()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(wanted)}))


def _load(path: Path) -> Any:
    """Load the extension module and tell it how to read tensors and how many threads torch uses."""
    import torch

    loader = importlib.machinery.ExtensionFileLoader("pn_module", str(path))
    spec = importlib.util.spec_from_loader("pn_module", loader, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    module.bind(exchange, _thread_count_address(), _describe, torch.Tensor)
    return module


@functools.cache
def _thread_count_address() -> int:
    """Address of at::get_num_threads(), 0 where it cannot be found (OpenMP's own setting then counts)."""
    import torch

    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    try:
        function = ctypes.CDLL(str(library))["_ZN2at15get_num_threadsEv"]
    except (OSError, AttributeError):
        return 0
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _describe(tensor: Any) -> tuple[int, int, int, int, int, tuple[int, ...], tuple[int, ...]]:
    """Pointer, DLPack code and bits, device type (1: CPU, 2: CUDA) and index, shape, strides, by methods."""
    code, bits = DLPACK_CODES.get(str(tensor.dtype).removeprefix("torch."), (255, 255))
    kind = {"cpu": 1, "cuda": 2}.get(tensor.device.type, 0)
    pointer = tensor.data_ptr()
    return pointer, code, bits, kind, tensor.device.index or 0, tuple(tensor.shape), tuple(tensor.stride())
