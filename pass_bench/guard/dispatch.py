"""Watching every operator that torch dispatches during one call: who asked for it, and with what memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pass_bench.results.records import Violation

ALLOCATORS = frozenset(
    (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
        *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like"),
        *("new_full", "zero_", "fill_", "scalar_tensor", "lift_fresh", "lift_fresh_copy"),
    )
)
UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_")
)
COPIES = frozenset(  # of bits, to another layout, dtype or device; and scalars out of a tensor
    ("clone", "_to_copy", "contiguous", "_local_scalar_dense", "is_pinned", "_pin_memory", "is_same_size")
)
# Launchers, whose operators are their own and not the pass's.
TRUSTED = ("triton", "pass_bench.kernels")


class DispatchGuard(TorchDispatchMode):
    """Notes the operators that a pass's own code asks for, unless they only allocate, view or copy.

    `pass_dir` and `codes` (of the replacement functions) say what a pass's code is. Memory that is handed out
    uninitialised is filled with NaN, or for integers with the largest value, so that whoever reads it shows.
    """

    def __init__(self, pass_dirs: Iterable[Path], codes: Iterable[CodeType]):
        super().__init__()
        self._dirs = tuple(f"{path.resolve()}/" for path in pass_dirs)
        self._codes = frozenset(codes)
        self.operators: dict[str, Violation] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name.removeprefix("aten::")
        harmless = name in ALLOCATORS or name in COPIES or func.is_view or name == "resize_"
        if not harmless and name not in self.operators:
            place = self._place(sys._getframe(1))
            if place is not None:
                why = f"the replacement function calls torch's {func._schema.name}"
                self.operators[name] = Violation(rule="torch-operator", why=why, file=place[0], line=place[1])
        result = func(*args, **(kwargs or {}))
        if name in UNINITIALISED and isinstance(result, torch.Tensor):
            poison(result)
        return result

    def _place(self, frame: FrameType | None) -> tuple[str, int] | None:
        """File and line of the pass that asked, None where a graph node or a trusted launcher did."""
        while frame is not None:
            code = frame.f_code
            if code in self._codes or code.co_filename.startswith(self._dirs):
                return code.co_filename, frame.f_lineno
            module = frame.f_globals.get("__name__", "")
            if module.startswith(TRUSTED) and _is_module(frame, module):
                return None
            frame = frame.f_back
        return None


def poison(tensor: torch.Tensor) -> None:
    """Fill memory so that reading it shows: NaN, the largest integer, True."""
    if tensor.numel() == 0:
        return
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.fill_(True)
    else:
        tensor.fill_(torch.iinfo(tensor.dtype).max)


def replacement_codes(
    functions: Iterable[Any], pass_dirs: Sequence[Path]
) -> tuple[list[CodeType], list[Violation]]:
    """Code objects of the replacement functions, and a violation for each that is no function of a pass."""
    codes: list[CodeType] = []
    violations: list[Violation] = []
    dirs = tuple(f"{path.resolve()}/" for path in pass_dirs)
    for function in functions:
        inner = function
        for _ in range(20):
            inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, FunctionType) and inner.__code__.co_filename.startswith(dirs):
            codes.append(inner.__code__)
            continue
        module = type(inner).__module__
        if module.startswith(("triton.", "pass_bench.kernels")):
            continue
        method = vars(type(inner)).get("__call__")
        if isinstance(method, FunctionType) and method.__code__.co_filename.startswith(dirs):
            codes.append(method.__code__)
            continue
        where = getattr(getattr(inner, "__code__", None), "co_filename", type(inner).__name__)
        why = f"replacement_func returns {str(inner)[:80]} from {where}, no function of the pass"
        violations.append(Violation(rule="replacement-callable", why=why))
    return codes, violations


def _is_module(frame: FrameType, name: str) -> bool:
    """Whether a frame runs code of the module it claims to be of."""
    module = sys.modules.get(name)
    if module is None or vars(module) is not frame.f_globals:
        return False
    file = getattr(module, "__file__", None)
    return file is not None and frame.f_code.co_filename == file
