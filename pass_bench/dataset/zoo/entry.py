"""What a zoo offers: entries, and modules built from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Inputs = Callable[[int, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One configuration of one model class. `name` is unique within the library and usable as a folder name.

    `settings` is what the library's builder needs; `rank` orders the work: entries of rank 0 bring something
    new (the first of their class), later ranks bring further sizes.
    """

    library: str
    name: str
    class_name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rank: int = 0
    tag: str = "other"

    @property
    def key(self) -> str:
        """library/name."""
        return f"{self.library}/{self.name}"


@dataclass(frozen=True, slots=True)
class Built:
    """A module in eval mode and the inputs for a batch and sequence size.

    `batch` and `sequence` are the sizes to capture at; `has_sequence` is False where the second does nothing.
    """

    module: torch.nn.Module
    inputs: Inputs
    batch: int = 1
    sequence: int = 64
    has_sequence: bool = False
