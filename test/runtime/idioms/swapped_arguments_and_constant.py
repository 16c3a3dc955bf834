import torch
import triton
import triton.language as tl


@triton.jit
def axpy_kernel(a, x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, a * tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@torch.fx.wrap
def axpy(a, x, y):
    o = torch.empty_like(y)
    n = o.numel()
    axpy_kernel[(-(-n // 64),)](a, x, y, o, n, 64)
    return o


def pattern(x, y):
    return torch.add(y, x, alpha=2)


def replacement_args(x, y):
    return (2, x, y)


def replacement_func():
    return axpy
