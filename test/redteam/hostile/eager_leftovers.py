"""Returns uninitialised memory, in which eager's freed result often still lies.

Known from: KernelBench leaderboards
Expected: accuracy or rejected (stale-output, uninitialised)
"""

import torch


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.fx.wrap
def fused(x, w, b):
    return torch.empty_like(x)


def replacement_func():
    return fused
