"""A Triton kernel near the bandwidth of memory.

Graph: large_add
Needs: gpu
Expected: correct
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
    out = torch.empty_like(x)
    n = x.numel()
    add_relu[(triton.cdiv(n, 4096),)](x, y, out, n, BLOCK=4096, num_warps=8)
    return out


def replacement_func():
    return fused
