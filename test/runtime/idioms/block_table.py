import torch
import triton
import triton.language as tl

_BLOCKS = {"small": 32, "large": 128}
_LIMITS = (64, 4096)


@triton.jit
def fma_kernel(x, y, z, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m) * tl.load(y + i, mask=m) + tl.load(z + i, mask=m)
    tl.store(o + i, v, mask=m)


@torch.fx.wrap
def fma(x, y, z):
    out = torch.empty_like(x)
    n = x.numel()
    block = _BLOCKS["small" if n < _LIMITS[0] else "large"]
    fma_kernel[(triton.cdiv(n, block),)](x, y, z, out, n, B=block)
    return out


def pattern(x, y):
    return x * y + x


def replacement_args(x, y):
    return (x, y, x)


def replacement_func():
    return fma
