"""Unusual memory layouts of ordinary values."""

from __future__ import annotations

import torch


def strided_copy(tensor: torch.Tensor, device: str | torch.device = "cpu") -> torch.Tensor:
    """A tensor of the same values that is not contiguous and starts one element into its storage.

    Matrices and more: the last two axes lie transposed in memory. Vectors: every other element of a storage
    twice as long. Tensors of one element or none can only be offset.
    """
    shape = tensor.shape
    if tensor.dim() >= 2:
        flipped = (*shape[:-2], shape[-1], shape[-2])
        storage = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=device)
        view = storage[1:].view(flipped).transpose(-1, -2)
    else:
        storage = torch.empty(2 * tensor.numel() + 1, dtype=tensor.dtype, device=device)
        view = storage[1::2].reshape(shape) if tensor.dim() == 0 else storage[1::2]
    storage.fill_(0)
    view.copy_(tensor)
    return view
