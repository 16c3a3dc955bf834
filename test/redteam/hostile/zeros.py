"""Returns zeros.

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
    return torch.zeros_like(x)


def replacement_func():
    return fused
