import torch
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x, mean, cols, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    v = tl.load(x + r * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(mean + r, tl.sum(v, 0) / cols)


@triton.jit
def center_kernel(x, mean, y, cols, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    m = c < cols
    tl.store(y + r * cols + c, tl.load(x + r * cols + c, mask=m) - tl.load(mean + r), mask=m)


@torch.fx.wrap
def center(x):
    rows, cols = x.shape[0], x.shape[1]
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    B = triton.next_power_of_2(cols)
    mean_kernel[(rows,)](x, mean, cols, B=B)
    center_kernel[(rows,)](x, mean, y, cols, B=B)
    return y


def pattern(x):
    return x - x.mean(-1, keepdim=True)


def replacement_args(x):
    return (x,)


def replacement_func():
    return center
