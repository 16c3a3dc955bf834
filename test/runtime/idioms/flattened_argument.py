import torch
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x, w, b, y, n, cols, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    c = i % cols
    tl.store(y + i, tl.load(x + i, mask=m) * tl.load(w + c, mask=m) + tl.load(b + c, mask=m), mask=m)


@torch.fx.wrap
def affine(x, w, b):
    flat = x.reshape(-1)
    y = torch.empty_like(flat)
    n, cols = flat.shape[0], w.numel()
    affine_kernel[lambda meta: (triton.cdiv(n, meta["B"]),)](flat, w, b, y, n, cols, B=64)
    return y.reshape(x.shape)


def pattern(x, w):
    return x * w[0] + w[1]


def replacement_args(x, w):
    return (x, w[0], w[1])


def replacement_func():
    return affine
