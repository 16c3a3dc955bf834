import torch
import triton
import triton.language as tl


@triton.jit
def sqrt_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.sqrt(tl.abs(tl.load(x + i, mask=i < n).to(tl.float32))), mask=i < n)


@torch.fx.wrap
def root(x):
    import math as m

    import torch as t
    from triton import cdiv

    y = t.empty_like(x)
    sqrt_kernel[(max(cdiv(x.numel(), 64), m.ceil(0.5)),)](x, y, x.numel(), B=64)
    return y


def pattern(x):
    return torch.sqrt(torch.abs(x))


def replacement_args(x):
    return (x,)


def replacement_func():
    return root
