"""`cpp_kernel`: plain C++ from a pass author, compiled once, cached on disk, called with CPU tensors."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.cpp_stub import full_source
from pass_bench.kernels.errors import KernelCompileError
from pass_bench.kernels.kernel_cache import cached_file, content_key
from pass_bench.kernels.signature import Signature, check_dtypes, parse_signature

INCLUDE = Path(__file__).parent / "include"
# Contraction is off so that a product is rounded where it is written, as eager's own operator rounds it.
FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp", "-ffp-contract=off", "-fno-math-errno",
    "-fPIC", "-shared", "-fvisibility=hidden", "-Wno-psabi",
)  # fmt: skip


class CppKernel(functools.partial):  # type: ignore[type-arg]
    """A C++ kernel; calling it compiles it the first time.

    Tensor arguments must lie on the CPU, have the dtype of the signature and, unless declared as
    `view<T, N>`, be contiguous: otherwise TypeError or ValueError says which argument is what. Returns None.

    It is a `functools.partial` without arguments because that forwards a call to the native function in 5 ns,
    where a `__call__` in Python costs 100.
    """

    source: str
    signature: Signature
    dtypes: tuple[str, ...]
    _compiled: bool

    def __new__(cls, source: str, signature: str, dtypes: Sequence[str] = ()) -> CppKernel:
        parsed = parse_signature(signature)
        check_dtypes(parsed, tuple(dtypes))

        def compile_and_call(*args: Any) -> None:
            kernel.compile()
            return kernel(*args)

        kernel = super().__new__(cls, compile_and_call)
        kernel.source, kernel.signature, kernel.dtypes = source, parsed, tuple(dtypes)
        kernel._compiled = False
        return kernel

    @property
    def name(self) -> str:
        return self.signature.name

    def compile(self) -> CppKernel:
        """Compile now (or take it from the cache) instead of at the first call; raises KernelCompileError."""
        if not self._compiled:
            native = _load(_shared_object(self)).call
            self.__setstate__((native, (), {}, {**self.__dict__, "_compiled": True}))
        return self

    def __repr__(self) -> str:
        return f"<cpp_kernel {self.name}>"


def cpp_kernel(source: str, signature: str, dtypes: Sequence[str] = ()) -> CppKernel:
    """Make a kernel of plain C++.

    `signature` names the function and its parameters: `"add(const T* x, T* out, int64_t n)"`. Parameters are
    pointers to contiguous tensors (`const float*`, `T*`, `const half*`, `const int64_t*` ...), tensors of
    any strides (`view<const T, 4>`), lists of contiguous tensors (`list<const T>`) and scalars (`int64_t`,
    `int`, `double`, `float`, `bool`). With `dtypes`, say `("float32", "float16", "bfloat16")`, the function
    is a template over `T`, picked by the first `T` tensor. `pn_kernel.h`, which offers 16-bit floats, vectors
    and a parallel loop in namespace `pn`, is included. Raises KernelSignatureError; compiling happens at the
    first call.
    """
    return CppKernel(source, signature, dtypes)


@functools.cache
def compiler() -> tuple[str, str]:
    """The C++ compiler ($CXX, g++, c++ or clang++) and its version; raises HarnessFailure without one."""
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (path := shutil.which(name)):
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            return path, version.split("\n")[0]
    raise HarnessFailure("no C++ compiler found: cpp_kernel needs g++ or clang++ (or $CXX)")


@functools.cache
def cpu_identity() -> str:
    """What `-march=native` depends on: the processor's model and flags."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return sysconfig.get_platform()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in text.splitlines() if line.startswith(wanted)}))


def _shared_object(kernel: CppKernel) -> Path:
    text = full_source(kernel.source, kernel.signature, kernel.dtypes)
    path, version = compiler()
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    headers = [header.read_bytes() for header in sorted(INCLUDE.glob("*.h"))]
    key = content_key(text, " ".join(FLAGS), path, version, cpu_identity(), suffix, *headers)

    def build(target: Path) -> None:
        unit = target.with_suffix(".cpp")
        unit.write_text(text)
        includes = [f"-I{INCLUDE}", f"-I{sysconfig.get_paths()['include']}"]
        command = [path, *FLAGS, *includes, str(unit), "-o", str(target)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=target.parent)
        if ran.returncode:
            raise _compile_error(kernel, ran.stderr)

    return cached_file(f"{kernel.name}-{key}.so", build)


def _compile_error(kernel: CppKernel, log: str) -> KernelCompileError:
    """The first error of the log, located in the author's source where that is possible."""
    own = re.search(rf"^{re.escape(kernel.name)}\.cpp:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", log, re.M)
    if own:
        number = int(own.group(1))
        lines = kernel.source.split("\n")
        quoted = f" in {lines[number - 1].strip()!r}" if 0 < number <= len(lines) else ""
        return KernelCompileError(f"C++ kernel {kernel.name!r}, line {number}: {own.group(2)}{quoted}", log)
    other = re.search(r"^.*?(?:error|undefined reference)[: ].*$", log, re.M)
    what = other.group(0).strip() if other else (log.strip().split("\n") or ["compiler failed"])[0]
    if "generated_stub.cpp" in what:
        what = "the source has no function that fits the signature: " + what.split("error: ")[-1]
    return KernelCompileError(f"C++ kernel {kernel.name!r}: {what}", log)


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


def _describe(tensor: Any) -> tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]:
    """Pointer, DLPack code and bits, device type (1: CPU), shape and strides, by tensor methods."""
    from pass_bench.kernels.cpp_stub import DLPACK_CODES

    code, bits = DLPACK_CODES.get(str(tensor.dtype).removeprefix("torch."), (255, 255))
    device = 1 if tensor.device.type == "cpu" else 2
    pointer = tensor.data_ptr()
    return pointer, code, bits, device, tuple(tensor.shape), tuple(tensor.stride())
