"""Lets map and functools.reduce call the operators.

Known from: public logs of kernel-writing agents
Rules: torch-compute
Expected: rejected (torch-operator)
"""

import functools
import operator

import torch


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


@torch.fx.wrap
def fused(x, w, b):
    product = functools.reduce(operator.mul, [x, w])
    return next(map(torch.nn.functional.gelu, [operator.add(product, b)]))


def replacement_func():
    return fused
