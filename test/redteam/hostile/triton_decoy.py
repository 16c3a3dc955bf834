"""A Triton kernel runs on scratch memory; the result comes from torch.

Known from: KernelBench leaderboards
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


@triton.jit
def add_relu(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    total = tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside)
    tl.store(out + i, tl.maximum(total, 0.0), mask=inside)


@torch.fx.wrap
def fused(x, y):
    scratch = torch.empty_like(x)
    n = x.numel()
    add_relu[(triton.cdiv(n, 64),)](x, y, scratch, n, BLOCK=64)
    return torch.relu(x + y)


def replacement_func():
    return fused
