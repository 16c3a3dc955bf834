import torch
import triton
import triton.language as tl


@triton.jit
def abs_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.abs(tl.load(x + i, mask=i < n)), mask=i < n)


@torch.fx.wrap
def absolute(x):
    if not x.is_contiguous():
        x = x.contiguous()
    y = torch.empty(x.size(), dtype=x.dtype, device=x.device)
    n = y.nelement()
    block = 256 if n >= 256 else 32
    abs_kernel[(triton.cdiv(n, block),)](x, y, n, B=block)
    return y


def pattern(x):
    return torch.abs(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return absolute
