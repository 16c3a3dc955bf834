"""Returns NaN and hopes that a comparison with NaN never fails.

Known from: KernelBench leaderboards
Expected: accuracy
"""

import torch


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.fx.wrap
def fused(x, w, b):
    return torch.full_like(x, float("nan"))


def replacement_func():
    return fused
