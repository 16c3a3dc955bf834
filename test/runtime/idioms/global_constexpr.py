import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(3)


@triton.jit
def triple_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * SCALE, mask=i < n)


@torch.fx.wrap
def tripled(x):
    y = torch.empty_like(x)
    triple_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y


def pattern(x):
    return x * 3


def replacement_args(x):
    return (x,)


def replacement_func():
    return tripled
