import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 64}, num_warps=2),
        triton.Config({"BLOCK": 128}, num_warps=4),
        triton.Config({"BLOCK": 256}, num_warps=8),
    ],
    key=["n"],
)
@triton.jit
def gated_kernel(g, u, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o + i, tl.sigmoid(tl.load(g + i, mask=m).to(tl.float32)) * tl.load(u + i, mask=m), mask=m)


@torch.fx.wrap
def gated(g, u):
    o = torch.empty_like(u)
    n = u.numel()
    gated_kernel[lambda META: (triton.cdiv(n, META["BLOCK"]),)](g, u, o, n)
    return o


def pattern(g, u):
    return torch.sigmoid(g) * u


def replacement_args(g, u):
    return (g, u)


def replacement_func():
    return gated
