import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def hypot_kernel(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    a, b = tl.load(x + i, mask=m).to(tl.float32), tl.load(y + i, mask=m).to(tl.float32)
    tl.store(o + i, tl.sqrt(a * a + b * b), mask=m)


def output_like(x):
    return torch.empty_like(x)
