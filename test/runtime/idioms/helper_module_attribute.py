import _shared_kernels as K
import torch
import triton


@torch.fx.wrap
def hypot_again(x, y):
    out = K.output_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["B"]),)
    K.hypot_kernel[grid](x, y, out, x.numel(), B=K.BLOCK)
    return out


def pattern(x, y):
    return (x * x + y * y).sqrt()


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return hypot_again
