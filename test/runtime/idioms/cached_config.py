import functools

import torch
import triton
import triton.language as tl


@functools.cache
def _config(n_cols):
    block = triton.next_power_of_2(n_cols)
    return block, 4 if block < 2048 else 8


@triton.jit
def rms_kernel(x, y, cols, eps, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + r * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(y + r * cols + c, v * tl.rsqrt(tl.sum(v * v, 0) / cols + eps), mask=c < cols)


@torch.fx.wrap
def rms_norm(x, eps=1e-6):
    y = torch.empty_like(x)
    cols = x.shape[-1]
    block, warps = _config(cols)
    rms_kernel[(x.numel() // cols,)](x, y, cols, eps, B=block, num_warps=warps)
    return y


def pattern(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def replacement_args(x):
    return (x,)


def replacement_func():
    return rms_norm
