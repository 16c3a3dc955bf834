"""Writes the arithmetic with Python's operators only.

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
    v = x * w + b
    return 0.5 * v * (1.0 + torch.erf(v * 0.7071067811865476))


def replacement_func():
    return fused
