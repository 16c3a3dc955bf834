"""Copies of inputs that are like them in everything but the memory they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def fresh_copies(inputs: Sequence[Any]) -> list[Any]:
    """Copy tensors with their strides, offsets and the memory that they share among each other."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies: dict[int, torch.Tensor] = {}
    return [_copy(value, storages, copies) if isinstance(value, torch.Tensor) else value for value in inputs]


def _copy(
    tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage], copies: dict[int, torch.Tensor]
) -> torch.Tensor:
    known = copies.get(id(tensor))
    if known is not None:
        return known
    if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        made = tensor.clone()
    else:
        with torch.no_grad():
            source = tensor.untyped_storage()
            storage = storages.get(source._cdata)
            if storage is None:
                storage = storages[source._cdata] = source.clone()
            made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            made.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())  # type: ignore[call-overload]
        if isinstance(tensor, torch.nn.Parameter):
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            made.requires_grad_()
    copies[id(tensor)] = made
    return made
