import torch
import triton
import triton.language as tl


@triton.jit
def add_in_place_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(x + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@torch.fx.wrap
def add_(x, y):
    add_in_place_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return x


def pattern(x, y):
    x += y
    return x


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return add_
