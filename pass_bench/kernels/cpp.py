"""`cpp_kernel`: plain C++ from a pass author, compiled once, cached on disk, called with CPU tensors."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from pass_bench.kernels.cpp_stub import full_source
from pass_bench.kernels.errors import KernelCompileError
from pass_bench.kernels.extension import CompilerFailed, build_extension
from pass_bench.kernels.signature import Signature, check_dtypes, parse_signature


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
            try:
                module = build_extension(self.name, full_source(self.source, self.signature, self.dtypes))
            except CompilerFailed as failed:
                raise _compile_error(self, failed.log) from None
            state = {**self.__dict__, "_compiled": True}
            self.__setstate__((module.call, (), {}, state))  # type: ignore[attr-defined]
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


def _compile_error(kernel: CppKernel, log: str) -> KernelCompileError:
    """The first error of the log, located in the author's source where that is possible."""
    own = re.search(rf"^{re.escape(kernel.name)}\.cpp:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", log, re.M)
    if own:
        number = int(own.group(1))
        lines = kernel.source.split("\n")
        quoted = f" in {lines[number - 1].strip()!r}" if 0 < number <= len(lines) else ""
        return KernelCompileError(f"C++ kernel {kernel.name!r}, line {number}: {own.group(2)}{quoted}", log)
    other = re.search(r"^.*?(?:error|undefined reference)[: ].*$", log, re.M)
    what = other.group(0).strip() if other else (log.strip() or "the compiler failed").split("\n")[0]
    if "generated_stub.cpp" in what:
        what = "the source has no function that fits the signature: " + what.split("error: ")[-1]
    return KernelCompileError(f"C++ kernel {kernel.name!r}: {what}", log)
