import torch
import triton
import triton.language as tl


@triton.jit
def sign_kernel(x, flag, count, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    v = tl.load(x + i, mask=m)
    tl.store(flag + i, (v > 0).to(tl.int8), mask=m)
    tl.store(count + i, (v > 0).to(tl.int32) * 2, mask=m)


@torch.fx.wrap
def positive(x):
    flag = torch.empty(x.shape, dtype=torch.bool, device=x.device)
    count = torch.full(x.shape, -1, dtype=torch.int32, device=x.device)
    sign_kernel[(triton.cdiv(x.numel(), 64),)](x, flag.view(torch.int8), count, x.numel(), B=64)
    return flag, count


def pattern(x):
    return x > 0, (x > 0).to(torch.int32) * 2


def replacement_args(x):
    return (x,)


def replacement_func():
    return positive
