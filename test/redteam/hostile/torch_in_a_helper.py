"""Calls the operators in a helper module of the pass_dir.

Known from: public logs of kernel-writing agents
Rules: torch-compute
Expected: rejected (torch-operator)
"""

import torch
from pass_dir._helper import run


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.fx.wrap
def fused(x, w, b):
    return run(x, w, b)


def replacement_func():
    return fused
