import torch
import triton
import triton.language as tl


@triton.jit
def bias_kernel(x, b, y, H, W, BW: tl.constexpr):
    h, n = tl.program_id(1), tl.program_id(2)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    m = w < W
    at = (n * H + h) * W + w
    tl.store(y + at, tl.load(x + at, mask=m) + tl.load(b + w, mask=m), mask=m)


@torch.fx.wrap
def add_bias(x, b):
    x3 = x.view(1, -1, x.size(-1))
    N, H, W = x3.shape
    y = torch.empty_like(x3)
    bias_kernel[(triton.cdiv(W, 16), H, N)](x3, b, y, H, W, BW=16)
    return y.view_as(x)


def pattern(x, b):
    return x + b


def replacement_args(x, b):
    return (x, b[0])


def replacement_func():
    return add_bias
