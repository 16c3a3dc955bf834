import torch
import triton
import triton.language as tl


@triton.jit
def neg_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, -tl.load(x + i, mask=i < n), mask=i < n)


@torch.fx.wrap
def negate(x):
    y = torch.empty_like(x)
    launch = neg_kernel[(triton.cdiv(x.numel(), 32),)]
    launch(x, y, x.numel(), B=32)
    return y


def pattern(x):
    return -x


def replacement_args(x):
    return (x,)


def replacement_func():
    return negate
