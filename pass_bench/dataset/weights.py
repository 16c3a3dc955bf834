"""Random weights that are never constant: norms near one, biases near zero, variances positive."""

from __future__ import annotations

import math

import torch


def fill_weights(module: torch.nn.Module, seed: int = 0) -> None:
    """Fill all parameters, and the running statistics of norms, in place; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            _fill(name.lower(), parameter, generator)
        for name, buffer in module.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.2, generator=generator)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5, generator=generator)


def _fill(name: str, parameter: torch.nn.Parameter, generator: torch.Generator) -> None:
    if not parameter.is_floating_point() or parameter.is_meta:
        return
    if parameter.dim() > 1:
        fan_in = math.prod(parameter.shape[1:])
        parameter.normal_(0.0, max(1.0 / math.sqrt(max(fan_in, 1)), 0.005), generator=generator)
    elif "bias" in name:
        parameter.normal_(0.0, 0.1, generator=generator)
    else:
        parameter.normal_(1.0, 0.1, generator=generator)
