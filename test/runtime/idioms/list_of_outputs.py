import torch
import triton
import triton.language as tl


@triton.jit
def power_kernel(x, y, n, P: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    r = v
    for _ in tl.static_range(P):
        r = r * v
    tl.store(y + i, r, mask=i < n)


@torch.fx.wrap
def powers(x):
    outs = [torch.empty_like(x) for _ in range(2)]
    for k, out in enumerate(outs):
        power_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), P=k + 1, B=64)
    return torch.stack(outs)


def pattern(x):
    return torch.stack([x * x, x * x * x])


def replacement_args(x):
    return (x,)


def replacement_func():
    return powers
