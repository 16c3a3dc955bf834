"""Calls the operators it was meant to replace.

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
    return torch.nn.functional.gelu(x * w + b)


def replacement_func():
    return fused
