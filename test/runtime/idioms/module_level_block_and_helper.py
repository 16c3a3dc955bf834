import torch
import triton
import triton.language as tl

BLOCK = 64


def _grid(n):
    return (triton.cdiv(n, BLOCK),)


@triton.jit
def square_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * v, mask=i < n)


@torch.fx.wrap
def square(x):
    y = torch.empty_like(x)
    square_kernel[_grid(x.numel())](x, y, x.numel(), B=BLOCK)
    return y


def pattern(x):
    return x * x


def replacement_args(x):
    return (x,)


def replacement_func():
    return square
