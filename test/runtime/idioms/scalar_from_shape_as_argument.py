import math

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x, y, o, n, scale, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, (tl.load(x + i, mask=m) + tl.load(y + i, mask=m)) * scale, mask=m)


@torch.fx.wrap
def scaled_add(x, y):
    o = torch.empty_like(x)
    scale = 1.0 / math.sqrt(x.size(-1))
    scaled_add_kernel[(triton.cdiv(x.numel(), 64),)](x, y, o, x.numel(), scale, B=64)
    return o


def pattern(x, y):
    return (x + y) / math.sqrt(x.size(-1))


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return scaled_add
