import torch
import triton
import triton.language as tl


@triton.jit
def sq_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, v * v, mask=i < n)


@torch.fx.wrap
def square_plus(x, y):
    o = torch.empty_like(x)
    sq_kernel[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), B=64)
    torch.add(o, y, out=o)
    o.mul_(2).clamp_(min=-100)
    o[..., 0] = 0
    return o


def pattern(x, y):
    return (x * x + y) * 2


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return square_plus
