"""Inputs for audited calls: timed calls that the supervisor picks and whose outputs it has verified.

- moved: fresh content at fresh addresses, another one for each call;
- refilled: fresh content where the timed calls' inputs lie, written so that no version counter moves;
- nudged: the timed calls' own inputs with a few elements changed, written the same way.

What a pass remembers by shape, address, version, or a sample of the content is then wrong; what it remembers
by the whole content is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch

AuditMode = Literal["moved", "refilled", "nudged"]
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


@contextmanager
def refilled(values: Sequence[Any], content: Sequence[Any]) -> Iterator[None]:
    """Let tensors hold other content for a while, their addresses and version counters unchanged."""
    pairs = [
        (_alias(kept), new, kept.detach().clone())
        for kept, new in zip(values, content, strict=True)
        if isinstance(kept, torch.Tensor) and kept.numel()
    ]
    try:
        for alias, new, _ in pairs:
            alias.copy_(new)
        yield
    finally:
        for alias, _, old in pairs:
            alias.copy_(old)


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as another tensor, with a version counter of its own."""
    if tensor.dtype == torch.bool:  # older versions of the exchange protocol have no bool
        return torch.from_dlpack(tensor.detach().view(torch.uint8)).view(torch.bool)
    return torch.from_dlpack(tensor.detach())
