"""Lets torch.compile write the kernel.

Known from: public logs of kernel-writing agents
Rules: torch-compute
Expected: rejected (torch-operator)
"""

import torch


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.compile(backend="eager")
def compiled(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


@torch.fx.wrap
def fused(x, w, b):
    return compiled(x, w, b)


def replacement_func():
    return fused
