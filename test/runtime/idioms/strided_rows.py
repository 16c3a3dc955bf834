import torch
import triton
import triton.language as tl


@triton.jit
def dot_rows_kernel(x, y, o, cols, sx, sy, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    m = c < cols
    a = tl.load(x + r * sx + c, mask=m, other=0.0).to(tl.float32)
    b = tl.load(y + r * sy + c, mask=m, other=0.0).to(tl.float32)
    tl.store(o + r, tl.sum(a * b, 0))


@torch.fx.wrap
def dot_rows(x, y):
    rows, cols = x.size()
    o = x.new_empty((rows,))
    sx, _ = x.stride()
    sy = y.stride()[0]
    dot_rows_kernel[(rows,)](x, y, o, cols, sx, sy, B=triton.next_power_of_2(cols))
    return o


def pattern(x, y):
    return (x * y).sum(-1)


def replacement_args(x, y):
    return (x, y)


def replacement_func():
    return dot_rows
