import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x, part, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(part + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0).to(tl.float32), 0))


@triton.jit
def final_kernel(part, out, k, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(out, tl.sum(tl.load(part + i, mask=i < k, other=0.0), 0))


@torch.fx.wrap
def total(x):
    n = x.numel()
    blocks = triton.cdiv(n, 32)
    part = torch.empty(blocks, dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=x.dtype, device=x.device)
    partial_kernel[(blocks,)](x, part, n, B=32)
    final_kernel[(1,)](part, out, blocks, B=triton.next_power_of_2(blocks))
    return out


def pattern(x):
    return x.sum()


def replacement_args(x):
    return (x,)


def replacement_func():
    return total
