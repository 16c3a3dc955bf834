import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"UNROLL": 1}), triton.Config({"UNROLL": 2})], key=["n"])
@triton.heuristics(values={"EVEN": lambda args: args["n"] % (32 * args["UNROLL"]) == 0})
@triton.jit
def clamp_kernel(x, y, n, lo, hi, UNROLL: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * 32 * UNROLL + tl.arange(0, 32 * UNROLL)
    if EVEN:
        v = tl.load(x + i)
        tl.store(y + i, tl.minimum(tl.maximum(v, lo), hi))
    else:
        v = tl.load(x + i, mask=i < n)
        tl.store(y + i, tl.minimum(tl.maximum(v, lo), hi), mask=i < n)


@torch.fx.wrap
def clamp(x, lo, hi):
    y = torch.empty_like(x)
    n = x.numel()
    grid = lambda args: (triton.cdiv(n, 32 * args["UNROLL"]),)
    clamp_kernel[grid](x, y, n, lo, hi)
    return y


def pattern(x):
    return torch.clamp(x, -1.0, 1.0)


def replacement_args(x):
    return (x, -1.0, 1.0)


def replacement_func():
    return clamp
