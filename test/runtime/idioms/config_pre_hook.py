import torch
import triton
import triton.language as tl


def _zero(nargs):
    nargs["acc"].zero_()


@triton.autotune(configs=[triton.Config({"BLOCK": 64}, pre_hook=_zero)], key=["n"])
@triton.jit
def accumulate_kernel(x, y, acc, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(acc + i, tl.load(acc + i, mask=m) + tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@torch.fx.wrap
def accumulate(x, y):
    acc = torch.empty_like(x)
    accumulate_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, acc, x.numel())
    return acc


def pattern(x, y):
    return 0 + x + y


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return accumulate
