import torch
import triton
import triton.language as tl


@triton.jit
def double_kernel(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@torch.fx.wrap
def doubled_twice(x):
    out = torch.empty((2, *x.shape), dtype=x.dtype, device=x.device)
    first, second = out.unbind(0)
    grid = (triton.cdiv(x.numel(), 64),)
    double_kernel[grid](x, first, x.numel(), B=64)
    double_kernel[grid](first, second, x.numel(), B=64)
    return out


def pattern(x):
    return torch.stack([x * 2, x * 4])


def replacement_args(x):
    return (x,)


def replacement_func():
    return doubled_twice
