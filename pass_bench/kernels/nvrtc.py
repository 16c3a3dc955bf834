"""CUDA C++ -> cubin through NVRTC, found beside torch or in a CUDA toolkit; needs no GPU."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
from pathlib import Path

from pass_bench.errors import HarnessFailure


class NvrtcFailed(Exception):
    """NVRTC refused the source; `log` is what it said."""

    def __init__(self, log: str):
        self.log = log
        super().__init__(log)


def compile_cubin(text: str, name: str, instance: str, architecture: str) -> tuple[bytes, str]:
    """Compile `text` for an architecture such as "sm_90a"; return the cubin and `instance`'s mangled name.

    `instance` is the kernel as C++ names it, `add` or `add<float>`. Raises NvrtcFailed, HarnessFailure.
    """
    library = nvrtc()
    options = [f"--gpu-architecture={architecture}", "--std=c++17", "-default-device"]
    options += [f"--include-path={folder}" for folder in include_folders()]
    program = ctypes.c_void_p()
    _check(
        library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), f"{name}.cu".encode(), 0, None, None)
    )
    try:
        _check(library.nvrtcAddNameExpression(program, instance.encode()))
        encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        if library.nvrtcCompileProgram(program, len(options), encoded):
            raise NvrtcFailed(_read(library, program, "ProgramLog").rstrip(b"\0").decode(errors="replace"))
        lowered = ctypes.c_char_p()
        _check(library.nvrtcGetLoweredName(program, instance.encode(), ctypes.byref(lowered)))
        assert lowered.value is not None
        return _read(library, program, "CUBIN"), lowered.value.decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


@functools.cache
def nvrtc() -> ctypes.CDLL:
    """The NVRTC library: torch's major version first; raises HarnessFailure where none is found."""
    import torch

    major = (torch.version.cuda or "").split(".")[0]
    names = [f"libnvrtc.so.{major}"] if major else []
    names += [str(path) for path in _installed(major)] + ["libnvrtc.so"]
    for name in names:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        # NVRTC opens its builtins by bare name, which finds them only where they are loaded already.
        for folder in {path.parent for path in _installed(major)}:
            for builtins in sorted(folder.glob(f"libnvrtc-builtins.so.{major}*")):
                ctypes.CDLL(str(builtins))
        return library
    raise HarnessFailure("no NVRTC library found: cuda_kernel needs libnvrtc (it comes with torch for CUDA)")


def version() -> tuple[int, int]:
    """NVRTC's version, part of the cache key."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _roots() -> list[Path]:
    """Folders that may hold lib/ and include/ of CUDA: the nvidia wheels, then toolkits."""
    roots: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        roots += sorted(Path(folder).glob("*"), reverse=True)
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            roots.append(Path(home))
    return roots


def _installed(major: str) -> list[Path]:
    found = [
        path
        for root in _roots()
        for folder in ("lib", "lib64")
        for path in sorted((root / folder).glob("libnvrtc.so*"))
        if re.fullmatch(r"libnvrtc\.so(\.\d+)*", path.name)
    ]
    return sorted(found, key=lambda path: f".so.{major}" not in path.name) if major else found


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Where CUDA's own headers lie, if anywhere: kernels that include cuda_fp16.h and the like need them."""
    folders = [root / "include" for root in _roots() if (root / "include" / "cuda_fp16.h").is_file()]
    return tuple(str(folder) for folder in folders[:1])


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, data))
    return data.raw


def _check(result: int) -> None:
    if result:
        explain = nvrtc().nvrtcGetErrorString
        explain.restype = ctypes.c_char_p
        raise HarnessFailure(f"NVRTC: {explain(result).decode()}")
