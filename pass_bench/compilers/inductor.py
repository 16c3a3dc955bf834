"""`torch.compile` with its defaults: what a user would pick instead of passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pass_bench.compilers.base import Compiled, first_call


class Inductor:
    """Dynamo and Inductor; compiles at once, so that failures are compile failures."""

    uses_passes = False
    model_only = False
    preload: tuple[str, ...] = ("base", "dynamo", "inductor")
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        import torch

        call = torch.compile(module)
        first_call(call, inputs)
        return Compiled(call)
