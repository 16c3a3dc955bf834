import torch
import triton
import triton.language as tl


@triton.jit
def step_kernel(x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 0.5, mask=i < n)


@torch.fx.wrap
def halved(x):
    y = x.clone()
    for _ in range(3):
        step_kernel[(triton.cdiv(y.numel(), 64),)](y, y.numel(), B=64)
    return y


def pattern(x):
    return x * 0.5 * 0.5 * 0.5


def replacement_args(x):
    return (x,)


def replacement_func():
    return halved
