"""Triton without a GPU: its interpreter, with bfloat16 rounded as eager rounds it.

Triton's interpreter keeps bfloat16 as raw 16-bit integers: conversions from float32 truncate instead of
rounding to nearest even, and arithmetic on two bfloat16 blocks runs on the bit patterns. Autotuning needs a
driver, and libdevice and inline assembly need the GPU compiler. `enable` makes the first two right and the
third explicit.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.errors import UnsupportedOnCpu

SWITCH = "TRITON_INTERPRET"

# Builder methods whose bfloat16 operands the interpreter takes for integers; comparisons give no bfloat16.
_ARITHMETIC = (
    "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "precise_divf", "approx_divf", "fma", "clampf",
    "minimumf", "minnumf", "maximumf", "maxnumf", "floor", "ceil", "exp", "exp2", "log", "log2", "sqrt",
    "precise_sqrt", "rsqrt", "sin", "cos", "erf",
)  # fmt: skip
_COMPARISONS = tuple(f"fcmp{order}{test}" for order in "OU" for test in ("LT", "GT", "LE", "GE", "EQ", "NE"))


def set_interpreted() -> None:
    """Make Triton interpret its kernels in this process and its children; call it before triton is imported.

    Raises HarnessFailure if triton has been imported without: it reads the switch when a kernel is decorated,
    and its own library functions are decorated at import.
    """
    if "triton" in sys.modules and os.environ.get(SWITCH) != "1":
        raise HarnessFailure(f"triton was imported before {SWITCH} was set")
    os.environ[SWITCH] = "1"


def is_interpreted() -> bool:
    """Whether kernels of this process run under the interpreter, so that their time is not a speed."""
    return os.environ.get(SWITCH) == "1"


def enable() -> None:
    """Import triton under its interpreter and correct it; calling it again does nothing."""
    set_interpreted()
    try:
        import triton.runtime.interpreter as interpreter
    except ImportError:
        return  # no triton: passes that import it say so themselves
    if getattr(interpreter, "_bfloat16_rounds", False):
        return
    interpreter._bfloat16_rounds = True
    _correct_bfloat16(interpreter)
    _take_first_config()
    _refuse_libdevice()


def unsupported_reason(error: BaseException) -> str | None:
    """Why `error` means "this needs a GPU" and not "this pass is wrong"; None if it does not.

    Looks through the chain of causes, since the interpreter wraps what a kernel raises.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, UnsupportedOnCpu):
            return str(seen)
        if isinstance(seen, NotImplementedError) and "interpreter mode" in str(seen):
            return f"Triton's interpreter: {seen}"
        seen = seen.__cause__ or seen.__context__
    return None


def _correct_bfloat16(interpreter: Any) -> None:
    import numpy as np
    import triton.language as tl

    handle_type, builder = interpreter.TensorHandle, interpreter.InterpreterBuilder

    def widen(handle: Any) -> Any:
        data = (np.asarray(handle.data).astype(np.uint32) << 16).view(np.float32)
        return handle_type(data, tl.float32)

    def narrow(handle: Any) -> Any:
        bits = np.ascontiguousarray(handle.data, dtype=np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        rounded = np.where(np.isnan(bits.view(np.float32)), 0x7FC0, rounded)
        return handle_type(rounded.astype(np.uint16).reshape(np.shape(handle.data)), tl.bfloat16)

    def is_bfloat16(value: Any) -> bool:
        return isinstance(value, handle_type) and value.dtype.scalar == tl.bfloat16

    def through_float32(method: Callable[..., Any], narrows: bool) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(is_bfloat16(value) for value in args):
                return method(self, *args, **kwargs)
            result = method(self, *(widen(v) if is_bfloat16(v) else v for v in args), **kwargs)
            return narrow(result) if narrows else result

        return call

    for name in _ARITHMETIC:
        if method := getattr(builder, f"create_{name}", None):
            setattr(builder, f"create_{name}", through_float32(method, narrows=True))
    for name in _COMPARISONS:
        if method := getattr(builder, f"create_{name}", None):
            setattr(builder, f"create_{name}", through_float32(method, narrows=False))
    builder.create_dot = through_float32(builder.create_dot, narrows=False)

    original_cast, original_fp_to_fp = builder.cast_impl, builder.create_fp_to_fp

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        if is_bfloat16(src) and dst_type.scalar != tl.bfloat16:
            wide = widen(src)
            return wide if dst_type.scalar == tl.float32 else original_cast(self, wide, dst_type.scalar)
        if dst_type.scalar == tl.bfloat16 and not is_bfloat16(src):
            wide = src if src.dtype.scalar == tl.float32 else original_cast(self, src, tl.float32)
            return narrow(wide)
        return original_cast(self, src, dst_type)

    def fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        toward_zero = rounding_mode is not None and "RTZ" in str(rounding_mode)
        sixteen_or_more = min(src.dtype.scalar.primitive_bitwidth, dst_type.scalar.primitive_bitwidth) >= 16
        if sixteen_or_more and not toward_zero:
            return cast(self, src, dst_type)
        return original_fp_to_fp(self, src, dst_type, rounding_mode)

    builder.cast_impl = cast
    builder.create_fp_to_fp = fp_to_fp

    def reduces_in_float32(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, input: Any) -> Any:
            if not any(is_bfloat16(x.handle) for x in input):
                return method(self, input)
            wide = tuple(
                _recast(x, widen(x.handle), tl.float32) if is_bfloat16(x.handle) else x for x in input
            )
            results = method(self, wide)
            results = results if isinstance(results, (list, tuple)) else (results,)
            return tuple(
                _recast(result, narrow(result.handle), tl.bfloat16)
                if index < len(input) and is_bfloat16(input[index].handle) and result.dtype == tl.float32
                else result
                for index, result in enumerate(results)
            )

        return call

    def _recast(tensor: Any, handle: Any, scalar: Any) -> Any:
        shape = list(tensor.type.shape) if tensor.type.is_block() else []
        return tl.core.tensor(handle, tl.block_type(scalar, shape) if shape else scalar)

    for reduction in (interpreter.ReduceOps, interpreter.ScanOps):
        reduction.apply_impl = reduces_in_float32(reduction.apply_impl)


def _take_first_config() -> None:
    """Timing configurations against each other needs a GPU and would rank numpy code: take the first."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.configs = self.configs[:1]

    Autotuner.__init__ = init


def _refuse_libdevice() -> None:
    import importlib

    def refusing(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            raise UnsupportedOnCpu(f"libdevice.{name} needs an NVIDIA GPU")

        return call

    for path in ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice"):
        try:
            module = importlib.import_module(path)
        except ImportError:
            continue
        for name, member in list(vars(module).items()):
            if not name.startswith("_") and callable(member) and getattr(member, "__module__", "") == path:
                setattr(module, name, refusing(name))
