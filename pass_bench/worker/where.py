"""Finds the call at which eager fails, with the shapes it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

MAX_ARGUMENTS = 8


class LastCall(TorchFunctionMode):
    """Remembers the innermost torch call that did not return."""

    def __init__(self) -> None:
        super().__init__()
        self.failed = ""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except Exception:
            if not self.failed:
                name = resolve_name(func) or getattr(func, "__name__", str(func))
                self.failed = f"{name}({describe_arguments((*args, *(kwargs or {}).values()))})"
            raise


def describe_arguments(values: Sequence[Any]) -> str:
    """Return "float32[1, 3, 224, 224], float32[64], None"."""
    words = []
    for value in values[:MAX_ARGUMENTS]:
        if isinstance(value, torch.Tensor):
            words.append(f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}")
        elif isinstance(value, list | tuple) and any(isinstance(item, torch.Tensor) for item in value):
            words.append(f"[{describe_arguments(value)}]")
        else:
            words.append(repr(value)[:40])
    return ", ".join(words) + (", ..." if len(values) > MAX_ARGUMENTS else "")


def failing_call(call: Callable[..., Any], inputs: Sequence[Any]) -> str:
    """Run a graph that is known to raise; return the torch call that raised, "" if none did."""
    mode = LastCall()
    try:
        with torch.no_grad(), mode:
            call(*inputs)
    except Exception:
        return mode.failed
    return ""
