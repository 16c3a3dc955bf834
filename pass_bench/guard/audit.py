"""Inputs for audited calls: timed calls that the supervisor picks and whose outputs it has verified.

- moved: fresh content at fresh addresses, another one for each call;
- refilled: fresh content where the timed calls' inputs lie, written so that no version counter moves;
- nudged: the timed calls' own inputs with a few elements changed, written the same way.

What a pass remembers by shape, address, version, or a sample of the content is then wrong; what it remembers
by the whole content is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

NUDGED_ELEMENTS = 3


def nudge(inputs: Sequence[Any], seed: int) -> int:
    """Mirror a few elements of each floating-point tensor about the middle of its range, in place.

    Values stay within the range that they came from. The same inputs and seed give the same result on every
    device. Returns how many elements changed.
    """
    generator = torch.Generator().manual_seed(seed)
    changed = 0
    for value in inputs:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point() or value.numel() == 0:
            continue
        flat = _alias(value).reshape(-1) if value.is_contiguous() else None
        if flat is None:
            continue
        low, high = float(flat.min()), float(flat.max())
        for place in torch.randint(value.numel(), (NUDGED_ELEMENTS,), generator=generator).tolist():
            old = float(flat[place])
            new = low + high - old
            if new != old and new == new:
                flat[place] = new
                changed += 1
    return changed


class Refill:
    """Gives tensors other content for a while, their addresses and version counters unchanged."""

    def __init__(self, values: Sequence[Any]):
        self._kept = [
            (place, _alias(value), value.detach().clone())
            for place, value in enumerate(values)
            if isinstance(value, torch.Tensor) and value.numel()
        ]

    def fill(self, content: Sequence[Any]) -> None:
        """Copy values of the same shapes in."""
        for place, alias, _ in self._kept:
            alias.copy_(content[place])

    def restore(self) -> None:
        """Copy the first content back."""
        for _, alias, old in self._kept:
            alias.copy_(old)


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as another tensor, with a version counter of its own."""
    if tensor.dtype == torch.bool:  # older versions of the exchange protocol have no bool
        return torch.from_dlpack(tensor.detach().view(torch.uint8)).view(torch.bool)
    return torch.from_dlpack(tensor.detach())
