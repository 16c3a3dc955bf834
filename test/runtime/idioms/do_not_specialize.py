import torch
import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def lerp_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a, b = tl.load(x + i, mask=m), tl.load(y + i, mask=m)
    tl.store(o + i, a + (b - a) * 0.5, mask=m)


@torch.fx.wrap
def lerp(x, y):
    o = torch.empty_like(x)
    lerp_kernel[(triton.cdiv(x.numel(), 64), 1)](x, y, o, x.numel(), B=64)
    return o


def pattern(x, y):
    return torch.lerp(x, y, 0.5)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return lerp
