import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x, y, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * s, mask=i < n)


@torch.fx.wrap
def scale(x, s):
    y = x.new_empty(x.shape)
    n = x.numel()
    scale_kernel.run(x, y, n, s, grid=(triton.cdiv(n, 64),), warmup=False, B=64)
    return y


def pattern(x):
    return x * 0.125


def replacement_args(x):
    return (x, 0.125)


def replacement_func():
    return scale
