"""Triton: a program per row; squares are summed in the order of eager's mean kernel.

In float16 the normalised value is rounded before it is multiplied by the weight, so a scale that differs in
its last bit moves some results by two neighbours, which is outside the tolerance.
"""

import torch
import triton
import triton.language as tl
from pass_dir._pattern import EPS, pattern, replacement_args

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cuda",)


@triton.jit
def _total(x, residual, at):
    a = tl.load(x + at).to(tl.float32)
    b = tl.load(residual + at).to(tl.float32)
    return (a + b).to(x.dtype.element_ty).to(tl.float32)


@triton.jit
def _kernel(x, residual, weight, total, out, eps, COLS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLS
    # Eager reduces a row with one warp. Each lane loads four neighbours at a time, has an accumulator for
    # each of the four and adds these up at the end ...
    group = tl.arange(0, 32)[:, None] * 4 + tl.arange(0, 4)[None, :]
    sums = tl.zeros([32, 4], dtype=tl.float32)
    for start in tl.static_range(0, COLS, 128):
        v = _total(x, residual, row + start + group)
        sums += v * v
    even, odd = tl.split(tl.reshape(sums, [32, 2, 2]))
    s0, s2 = tl.split(even)
    s1, s3 = tl.split(odd)
    s = ((s0 + s1) + s2) + s3
    # ... then lanes are added to those 16 away, 8 away, and so on.
    s = tl.sum(tl.reshape(s, [2, 16]), axis=0)
    s = tl.sum(tl.reshape(s, [2, 8]), axis=0)
    s = tl.sum(tl.reshape(s, [2, 4]), axis=0)
    s = tl.sum(tl.reshape(s, [2, 2]), axis=0)
    scale = tl.rsqrt(tl.sum(s, axis=0) / COLS + eps)
    cols = tl.arange(0, COLS)
    v = _total(x, residual, row + cols)
    tl.store(total + row + cols, v)
    normed = (v * scale).to(x.dtype.element_ty).to(tl.float32)
    tl.store(out + row + cols, tl.load(weight + cols).to(tl.float32) * normed)


@torch.fx.wrap
def add_rms_norm(x, residual, weight):
    total = torch.empty_like(x)
    out = torch.empty_like(x)
    cols = x.shape[-1]
    rows = x.numel() // cols
    # Few rows: more warps share the second half; many rows: more programs do.
    _kernel[(rows,)](
        x, residual, weight, total, out, EPS, COLS=cols, num_warps=4 if rows <= 512 else 1,
        enable_fp_fusion=False,
    )  # fmt: skip
    return total, out


def replacement_func():
    return add_rms_norm
