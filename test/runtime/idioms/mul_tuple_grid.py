import torch
import triton
import triton.language as tl


@triton.jit
def mul_kernel(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + i, tl.load(a + i, mask=i < n) * tl.load(b + i, mask=i < n), mask=i < n)


@torch.fx.wrap
def fused_mul(a, b):
    c = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    n = a.numel()
    BLOCK = 256
    mul_kernel[((n + BLOCK - 1) // BLOCK,)](a, b, c, n, BLOCK)
    return c


def pattern(a, b):
    return a * b


def replacement_args(a, b):
    return (a, b)


def replacement_func():
    return fused_mul
