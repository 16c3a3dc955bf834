import torch
import triton
import triton.language as tl


@triton.jit
def leaky_kernel(x, y, n, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    tl.store(y + i, tl.where(v > 0, v, v * slope), mask=i < n)


@torch.fx.wrap
def leaky(x):
    y = torch.empty_like(x)
    meta = {"BLOCK": 128, "num_warps": 4}
    args = (x, y, x.numel(), 0.01)
    leaky_kernel[(triton.cdiv(x.numel(), meta["BLOCK"]),)](*args, **meta)
    return y


def pattern(x):
    return torch.nn.functional.leaky_relu(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return leaky
