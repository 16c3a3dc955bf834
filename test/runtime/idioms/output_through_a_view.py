import torch
import triton
import triton.language as tl


@triton.jit
def fill_half_kernel(x, y, cols, width, B: tl.constexpr):
    r, c = tl.program_id(0), tl.arange(0, B)
    tl.store(y + r * width + c, tl.load(x + r * cols + c, mask=c < cols), mask=c < cols)


@torch.fx.wrap
def padded(x):
    rows, cols = x.shape
    out = torch.zeros(rows, 2 * cols, dtype=x.dtype, device=x.device)
    right = out[:, cols:]
    fill_half_kernel[(rows,)](x, right, cols, 2 * cols, B=triton.next_power_of_2(cols))
    return out


def pattern(x):
    return torch.nn.functional.pad(x, (x.shape[-1], 0))


def replacement_args(x):
    return (x,)


def replacement_func():
    return padded
