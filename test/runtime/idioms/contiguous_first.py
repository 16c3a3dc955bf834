import torch
import triton
import triton.language as tl


@triton.jit
def exp_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n).to(tl.float32)), mask=i < n)


@torch.fx.wrap
def exponential(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    exp_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), 128)
    return y


def pattern(x):
    return torch.exp(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return exponential
