import torch
import triton
import triton.language as tl


@triton.jit
def tanh_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + i, 2.0 * tl.sigmoid(2.0 * v) - 1.0, mask=i < n)


@torch.fx.wrap
def tanh(x):
    y = torch.empty_like(x)
    n = x.numel()
    if n == 0:
        return y
    try:
        tanh_kernel[(triton.cdiv(n, 64),)](x, y, n, B=64)
    except ZeroDivisionError:
        return y
    return y


def pattern(x):
    return torch.tanh(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return tanh
