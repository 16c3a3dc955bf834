import torch
import triton
import triton.language as tl


@triton.jit
def maybe_bias_kernel(x, b, y, n, HAS_BIAS: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    if HAS_BIAS:
        v = v + tl.load(b + i, mask=m)
    tl.store(y + i, v * 2, mask=m)


@torch.fx.wrap
def maybe_bias(x, bias=None):
    y = torch.empty_like(x)
    maybe_bias_kernel[(triton.cdiv(x.numel(), 64),)](x, bias, y, x.numel(), HAS_BIAS=bias is not None, B=64)
    return y


def pattern(x):
    return x * 2


def replacement_args(x):
    return (x, None)


def replacement_func():
    return maybe_bias
