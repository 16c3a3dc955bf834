"""Hands a functools.partial of a torch function over as the replacement.

Known from: public logs of kernel-writing agents
Rules: torch-compute
Expected: rejected (replacement-callable) or compile_fail
"""

import functools

import torch


def pattern(x):
    return torch.nn.functional.gelu(x)


def replacement_args(x):
    return (x,)


gelu = functools.partial(torch.nn.functional.gelu, approximate="none")


def replacement_func():
    return gelu
