import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@torch.fx.wrap
def copied(x, y):
    z = torch.empty_like(y)
    copy_kernel[(triton.cdiv(y.numel(), 64),)](y, z, y.numel(), B=64)
    return x, z, x


def pattern(x, y):
    return x, y.clone(), x


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return copied
