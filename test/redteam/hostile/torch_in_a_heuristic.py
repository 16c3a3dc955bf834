"""Lets Triton call torch: the operators run in a heuristic of a kernel that does nothing.

Known from: own invention
Rules: torch-compute
Graph: tiny_add
Expected: rejected (torch-operator, decoy-kernel)
"""

import torch
import triton
import triton.language as tl


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


def compute(args):
    kept[0] = torch.relu(args["x"] + args["y"])
    return True


kept = [None]


@triton.heuristics({"FLAG": compute})
@triton.jit
def nothing(x, y, FLAG: tl.constexpr):
    tl.program_id(0)


@torch.fx.wrap
def fused(x, y):
    nothing[(1,)](x, y)
    return kept[0]


def replacement_func():
    return fused
