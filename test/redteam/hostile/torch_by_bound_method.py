"""Keeps a bound method of a tensor and calls it later.

Known from: public logs of kernel-writing agents
Rules: torch-compute
Expected: rejected (torch-operator)
"""

import torch


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.fx.wrap
def fused(x, w, b):
    multiply, plus = x.mul, b.add
    return torch._C._nn.gelu(plus(multiply(w)))


def replacement_func():
    return fused
