import math

import torch
import triton
import triton.language as tl


@triton.jit
def where_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a, b = tl.load(x + i, mask=m), tl.load(y + i, mask=m)
    tl.store(o + i, tl.where(a > b, a, b), mask=m)


@torch.fx.wrap
def maximum(x, y):
    assert x.shape == y.shape, f"{x.shape} is not {y.shape}"
    if x.dtype != y.dtype:
        raise TypeError("different dtypes")
    if x.device.type not in ("cpu", "cuda"):
        raise RuntimeError("no such device")
    out = torch.empty_strided(x.size(), x.contiguous().stride(), dtype=x.dtype, device=x.device)
    n = math.prod(x.shape)
    where_kernel[(math.ceil(n / 64),)](x, y, out, n, B=64)
    return out


def pattern(x, y):
    return torch.maximum(x, y)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return maximum
