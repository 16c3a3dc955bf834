import torch
import triton
from _shared_kernels import BLOCK, hypot_kernel, output_like


@torch.fx.wrap
def hypot(x, y):
    out = output_like(x)
    hypot_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), B=BLOCK)
    return out


def pattern(x, y):
    return torch.sqrt(x * x + y * y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return hypot
