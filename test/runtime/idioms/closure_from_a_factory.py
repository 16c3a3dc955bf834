import torch
import triton
import triton.language as tl


@triton.jit
def shift_kernel(x, y, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) + s, mask=i < n)


def _make(kernel, shift, block):
    def run(x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), shift, B=block)
        return y

    return run


shifted = _make(shift_kernel, 3.0, 64)


def pattern(x):
    return x + 3.0


def replacement_args(x):
    return (x,)


def replacement_func():
    return shifted
