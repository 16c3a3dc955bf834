import torch
import triton
import triton.language as tl


@triton.jit
def mish_kernel(x, y, n, UPCAST: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    if UPCAST:
        v = v.to(tl.float32)
    tl.store(y + i, v * tl.sigmoid(v.to(tl.float32)), mask=i < n)


@torch.fx.wrap
def swish(x):
    y = torch.empty_like(x)
    upcast = x.dtype in (torch.float16, torch.bfloat16)
    block = 128 if x.element_size() == 2 else 64
    mish_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), UPCAST=upcast, B=block)
    return y


def pattern(x):
    return x * torch.sigmoid(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return swish
