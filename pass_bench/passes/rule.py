"""The contract of a pass: what to match, what to put there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class PassRule:
    """One pass, loaded.

    `pattern` is a function or a torch.fx.GraphModule; `replacement_args` maps the pattern's arguments to
    those of the function that `replacement_func()` returns; `devices` are the device types it is for, None:
    all.
    """

    name: str
    pattern: Any
    replacement_args: Callable[..., Any]
    replacement_func: Callable[[], Callable[..., Any]]
    path: Path | None = None
    devices: tuple[str, ...] | None = None
