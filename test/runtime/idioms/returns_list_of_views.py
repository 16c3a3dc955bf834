import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@torch.fx.wrap
def plus_one_rows(x):
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    split_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return [y[0], y[-1]]


def pattern(x):
    y = x + 1
    return y[0], y[-1]


def replacement_args(x):
    return (x,)


def replacement_func():
    return plus_one_rows
