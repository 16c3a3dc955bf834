"""Runs a graph in float64, to see how far eager itself is from the exact result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

LOW = (torch.float16, torch.bfloat16, torch.float32)
CASTS = {torch.Tensor.half, torch.Tensor.bfloat16, torch.Tensor.float}


class Float64Mode(TorchFunctionMode):
    """Turns every low-precision dtype that a graph asks for into float64."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func in CASTS:
            return args[0].double()
        args, kwargs = tree_map(widen, (args, kwargs or {}))
        return func(*args, **kwargs)


def widen(value: object) -> object:
    """Replace a low-precision dtype by float64; anything else stays."""
    return torch.float64 if isinstance(value, torch.dtype) and value in LOW else value


def run_in_float64(call: Callable[..., Any], inputs: Sequence[object]) -> Any | None:
    """Return what the graph gives with float64 inputs and constants; None if it cannot run so.

    The inputs are not touched. A graph that draws random numbers should not be asked: the draws differ.
    """
    wide = [
        value.detach().clone().double()
        if isinstance(value, torch.Tensor) and value.dtype in LOW
        else (value.detach().clone() if isinstance(value, torch.Tensor) else value)
        for value in inputs
    ]
    default = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad(), Float64Mode():
            return call(*wide)
    except (
        Exception
    ):  # an operator without a float64 kernel, or a literal dtype deep inside: no reference then
        return None
    finally:
        torch.set_default_dtype(default)
