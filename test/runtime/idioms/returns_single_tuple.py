import torch
import triton
import triton.language as tl


@triton.jit
def relu6_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.minimum(tl.maximum(tl.load(x + i, mask=i < n), 0.0), 6.0), mask=i < n)


@torch.fx.wrap
def relu6(x):
    y = torch.empty_like(x)
    relu6_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
    return (y,)


def pattern(x):
    return (torch.nn.functional.relu6(x),)


def replacement_args(x):
    return (x,)


def replacement_func():
    return relu6
