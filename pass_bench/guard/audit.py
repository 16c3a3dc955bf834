"""Other inputs for timed calls whose outputs are verified.

Audited calls, when the supervisor wants them:
- moved: fresh content at fresh addresses;
- refilled: fresh content where the timed calls' inputs lie, written so that no version counter moves.
Ordinary timed calls (watched_inputs.py):
- nudged: the timed calls' own inputs with a few elements changed, written the same way.

What a pass remembers by shape, address, version, or a sample of the content is then wrong; what it remembers
by the whole content is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

NUDGED_ELEMENTS = 3
NUDGED_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # smaller ones have no order


def nudge(inputs: Sequence[Any], seed: int) -> int:
    """Mirror a few elements of one floating-point tensor about the middle of its range, in place.

    Values stay within the range that they came from. The same inputs and seed give the same result on every
    device. Returns how many elements changed.
    """
    changed = 0
    for place, new in nudged_elements(inputs, seed, ranges_of(inputs)).items():
        flat = alias_of(inputs[place]).reshape(-1)
        for element, value in new.items():
            flat[element] = value
        changed += len(new)
    return changed


def ranges_of(inputs: Sequence[Any]) -> dict[int, tuple[float, float]]:
    """The least and the largest element of each input that can be nudged, by position."""
    ranges = {}
    for place, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor) or value.dtype not in NUDGED_TYPES or value.numel() == 0:
            continue
        if value.is_contiguous():
            ranges[place] = (float(value.min()), float(value.max()))
    return ranges


def nudged_elements(
    inputs: Sequence[Any], seed: int, ranges: dict[int, tuple[float, float]]
) -> dict[int, dict[int, float]]:
    """What a seed changes, by the position of the input: flat index and new value. It changes one input.

    Changing all would show in the smallest one, all of which a pass can afford to look at.
    """
    if not ranges:
        return {}
    generator = torch.Generator().manual_seed(seed)
    place = list(ranges)[int(torch.randint(len(ranges), (1,), generator=generator))]
    flat = inputs[place].detach().reshape(-1)
    chosen = torch.randint(flat.numel(), (NUDGED_ELEMENTS,), generator=generator)
    old = dict(zip(chosen.tolist(), flat[chosen.to(flat.device)].tolist(), strict=True))
    new = {element: sum(ranges[place]) - value for element, value in old.items()}
    return {place: {e: value for e, value in new.items() if value != old[e] and value == value}}


class Refill:
    """Gives tensors other content for a while, their addresses and version counters unchanged."""

    def __init__(self, values: Sequence[Any]):
        self._kept = [
            (place, alias_of(value), value.detach().clone())
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


def alias_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as another tensor, with a version counter of its own."""
    if tensor.dtype == torch.bool:  # older versions of the exchange protocol have no bool
        return torch.from_dlpack(tensor.detach().view(torch.uint8)).view(torch.bool)
    return torch.from_dlpack(tensor.detach())
