import torch
import triton
import triton.language as tl


@triton.jit
def sub_kernel(a_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o_ptr + i, tl.load(a_ptr + i, mask=m) - tl.load(b_ptr + i, mask=m), mask=m)


@torch.fx.wrap
def fused_sub(a, b):
    out = torch.empty_like(a)
    n = out.numel()

    def grid(meta):
        return (triton.cdiv(n, meta["BLOCK"]),)

    sub_kernel[grid](a, b, out, n, BLOCK=128)
    return out


def pattern(a, b):
    return a - b


def replacement_args(a, b):
    return (a, b)


def replacement_func():
    return fused_sub
