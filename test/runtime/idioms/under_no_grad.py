import torch
import triton
import triton.language as tl


@triton.jit
def cube_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * v * v, mask=i < n)


@torch.fx.wrap
@torch.no_grad()
def cube(x):
    y = torch.empty_like(x)
    cube_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return y


def pattern(x):
    return x * x * x


def replacement_args(x):
    return (x,)


def replacement_func():
    return cube
