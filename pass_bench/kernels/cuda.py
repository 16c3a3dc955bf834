"""`cuda_kernel`: CUDA C++ from a pass author, compiled by NVRTC, cached, launched on torch's stream."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pass_bench.kernels import nvrtc
from pass_bench.kernels.cpp_stub import DLPACK_CODES
from pass_bench.kernels.errors import KernelCompileError, UnsupportedOnCpu
from pass_bench.kernels.extension import INCLUDE
from pass_bench.kernels.kernel_cache import cached_file, content_key
from pass_bench.kernels.signature import ELEMENT_DTYPES, Signature, check_dtypes, parse_signature

CUDA_TYPES = {"float32": "float", "float64": "double", "float16": "pn::half", "bfloat16": "pn::bf16"}
_KIND_CODES = {
    "pointer": b"p",
    "view": b"v",
    "list": b"l",
    "int64": b"q",
    "int32": b"i",
    "float32": b"f",
    "float64": b"d",
    "bool": b"?",
}
DEFAULT_SHARED = 48 * 1024

Dim = int | tuple[int, ...]


@dataclass(frozen=True)
class LoadedFunction:
    """A compiled instance on one device: what a launch needs besides its arguments."""

    handle: int  # CUfunction
    spec: bytes  # kind, DLPack code, bits and rank of each parameter


class CudaKernel:
    """A CUDA kernel: `kernel[grid, block](*args)` or `kernel[grid, block, shared_bytes](*args)`.

    Grid and block are ints or tuples of up to three ints. Tensor arguments must lie on the current CUDA
    device, have the dtype of the signature and, unless declared as `view<T, N>`, be contiguous. Compiled at
    the first launch for each dtype; launched on torch's current stream. Raises UnsupportedOnCpu without GPU.
    """

    def __init__(self, source: str, signature: str, dtypes: Sequence[str] = ()):
        self.source = source
        self.signature: Signature = parse_signature(signature)
        self.dtypes = tuple(dtypes)
        check_dtypes(self.signature, self.dtypes)
        parameters = self.signature.parameters
        self._places = tuple(
            f"{self.name}: argument {i + 1} ({parameter.name})" for i, parameter in enumerate(parameters)
        )
        self._generic_at = next((i for i, p in enumerate(parameters) if p.element == "T"), None)
        self._loaded: dict[tuple[Any, int], LoadedFunction] = {}
        self._shared_allowed: dict[int, int] = {}

    @property
    def name(self) -> str:
        return self.signature.name

    def __getitem__(self, configuration: tuple[Dim, Dim] | tuple[Dim, Dim, int]) -> Any:
        return functools.partial(self.launch, *configuration)

    def launch(self, grid: Dim, block: Dim, *rest: Any) -> None:
        """Launch; `rest` is the arguments, with the shared memory in bytes before them if there is any."""
        extra = len(rest) - len(self.signature.parameters)
        if extra not in (0, 1):
            count = len(self.signature.parameters)
            raise TypeError(f"{self.name} takes {count} arguments, got {len(rest)}")
        shared, args = (rest[0], rest[1:]) if extra else (0, rest)
        import torch

        device = _current_device(self.name)
        dtype = None if self._generic_at is None else getattr(args[self._generic_at], "dtype", None)
        function = self._loaded.get((dtype, device)) or self._load(dtype, device)
        if shared > self._shared_allowed.get(function.handle, DEFAULT_SHARED):
            from pass_bench.kernels.cuda_driver import allow_shared_memory

            allow_shared_memory(function.handle, shared)
            self._shared_allowed[function.handle] = shared
        stream = torch._C._cuda_getCurrentRawStream(device)
        dims = (*_three(grid), *_three(block))
        _native_launch()(function.handle, device, stream, shared, dims, function.spec, self._places, args)

    def compile(self, dtype: str | None = None, architecture: str | None = None) -> tuple[bytes, str]:
        """The cubin and mangled name for a dtype and an architecture ("sm_90a"); given both, needs no GPU.

        Raises KernelCompileError with the author's line.
        """
        architecture = architecture or _architecture()
        instance = f"{self.name}<{CUDA_TYPES[dtype]}>" if dtype else self.name
        text = f'#include "pn_cuda.h"\n#line 1 "{self.name}.cu"\n{self.source}\n'
        text = text.replace('#include "pn_cuda.h"', (INCLUDE / "pn_cuda.h").read_text(), 1)
        key = content_key(text, instance, architecture, repr(nvrtc.version()), *nvrtc.include_folders())

        def build(target: Path) -> None:
            try:
                cubin, lowered = nvrtc.compile_cubin(text, self.name, instance, architecture)
            except nvrtc.NvrtcFailed as failed:
                raise _compile_error(self, failed.log) from None
            target.write_bytes(lowered.encode() + b"\n" + cubin)

        lowered, cubin = cached_file(f"{self.name}-{key}.cubin", build).read_bytes().split(b"\n", 1)
        return cubin, lowered.decode()

    def _load(self, dtype: Any, device: int) -> LoadedFunction:
        from pass_bench.kernels.cuda_driver import load_function

        name = None
        if self._generic_at is not None:
            name = str(dtype).removeprefix("torch.")
            if name not in self.dtypes:
                place = self._places[self._generic_at]
                raise TypeError(f"{place} is {name}, expected one of {', '.join(self.dtypes)}")
        cubin, lowered = self.compile(name)
        spec = b"".join(self._spec(index, name) for index in range(len(self.signature.parameters)))
        loaded = LoadedFunction(load_function(cubin, lowered), spec)
        self._loaded[dtype, device] = loaded
        return loaded

    def _spec(self, index: int, dtype: str | None) -> bytes:
        parameter = self.signature.parameters[index]
        code, bits = 0, 0
        if parameter.is_tensor:
            element = dtype if parameter.element == "T" else ELEMENT_DTYPES[parameter.element]
            assert element is not None
            code, bits = DLPACK_CODES[element]
        return _KIND_CODES[parameter.kind] + bytes((code, bits, parameter.rank))

    def __repr__(self) -> str:
        return f"<cuda_kernel {self.name}>"


def cuda_kernel(source: str, signature: str, dtypes: Sequence[str] = ()) -> CudaKernel:
    """Make a kernel of CUDA C++; `signature` and `dtypes` are those of `cpp_kernel`.

    The source defines `__global__ void name(...)`, a template over `T` where `dtypes` are given. 16-bit
    floats (`pn::half`, `pn::bf16`), `pn::pack` and the integer types are there without any include.
    """
    return CudaKernel(source, signature, dtypes)


def _three(dim: Dim) -> tuple[int, int, int]:
    if isinstance(dim, int):
        return dim, 1, 1
    if not 1 <= len(dim) <= 3:
        raise TypeError(f"grid and block have 1 to 3 dimensions, got {dim!r}")
    return (*dim, *(1,) * (3 - len(dim)))  # type: ignore[return-value]


@functools.cache
def _native_launch() -> Any:
    from pass_bench.kernels.cuda_driver import launcher

    return launcher().launch


def _current_device(name: str) -> int:
    import torch

    if not torch.cuda.is_initialized():
        if not torch.cuda.is_available():
            raise UnsupportedOnCpu(f"CUDA kernel {name!r} needs an NVIDIA GPU")
        torch.cuda.init()
    return int(torch._C._cuda_getDevice())


def _architecture() -> str:
    import torch

    major, minor = torch.cuda.get_device_capability()
    # The "a" variants hold the instructions that only that architecture has (wgmma and the like).
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def _compile_error(kernel: CudaKernel, log: str) -> KernelCompileError:
    own = re.search(rf"^{re.escape(kernel.name)}\.cu\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.M)
    if own is None:
        first = next((line for line in log.splitlines() if "error" in line), log.strip().split("\n")[0])
        return KernelCompileError(f"CUDA kernel {kernel.name!r}: {first.strip()}", log)
    number = int(own.group(1))
    lines = kernel.source.split("\n")
    quoted = f" in {lines[number - 1].strip()!r}" if 0 < number <= len(lines) else ""
    return KernelCompileError(f"CUDA kernel {kernel.name!r}, line {number}: {own.group(2)}{quoted}", log)
