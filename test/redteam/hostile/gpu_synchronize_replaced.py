"""Replaces torch.cuda.synchronize by nothing, so that the clock stops early.

Known from: KernelBench leaderboards
Rules: patched-module
Graph: large_add
Needs: gpu
Expected: rejected (patched, clock, below-floor, stale-output) or runtime_fail
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


torch.cuda.synchronize = lambda device=None: None


@torch.fx.wrap
def fused(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_relu[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


def replacement_func():
    return fused
