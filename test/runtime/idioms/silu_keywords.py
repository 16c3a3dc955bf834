import torch
import triton
import triton.language as tl


@triton.jit
def silu_kernel(X, Y, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + offs, mask=offs < N, other=0.0).to(tl.float32)
    tl.store(Y + offs, x / (1.0 + tl.exp(-x)), mask=offs < N)


@torch.fx.wrap
def silu(x):
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 128), 1, 1)
    silu_kernel[grid](X=x, Y=y, N=x.numel(), BLOCK=128, num_warps=4, num_stages=2)
    return y


def pattern(x):
    return torch.nn.functional.silu(x)


def replacement_args(x):
    return (x,)


def replacement_func():
    return silu
