import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}) for b in (32, 64)], key=["n_cols"], reset_to_zero=["out_ptr"]
)
@triton.jit
def row_sum_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0).to(tl.float32), 0)
    tl.store(out_ptr + row, total)


@torch.fx.wrap
def row_sum(x):
    x2 = x.reshape(-1, x.shape[-1])
    rows, cols = x2.shape
    out = torch.zeros(rows, device=x.device, dtype=x.dtype)
    row_sum_kernel[(rows,)](x_ptr=x2, out_ptr=out, n_cols=cols)
    return out.view(x.shape[:-1])


def pattern(x):
    return x.sum(-1)


def replacement_args(x):
    return (x,)


def replacement_func():
    return row_sum
