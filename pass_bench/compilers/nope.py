"""The model as it is: the control whose speedup must read 1.00."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pass_bench.compilers.base import Compiled


class Nope:
    """Runs the very module that eager runs."""

    uses_passes = False
    model_only = True
    preload: tuple[str, ...] = ("base",)
    devices: tuple[str, ...] = ("cpu", "cuda")

    def compile(
        self, module: Any, graph: Any, inputs: Sequence[Any], rules: Sequence[Any], device: str
    ) -> Compiled:
        return Compiled(module)
