"""Triton: each warp holds two rows of scores in registers from load to store."""

import torch
import triton
import triton.language as tl
from pass_dir._pattern import SCALE, pattern, replacement_args

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cuda",)


@triton.jit
def _kernel(
    scores, mask, out, rows, queries, mask_stride, HEADS_QUERIES: tl.constexpr, COLS: tl.constexpr,
    scale, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (cols < COLS)
    # mask: (1 or batch, 1, queries, cols)
    mask_row = (row // HEADS_QUERIES) * mask_stride + (row % queries) * COLS
    s = tl.load(scores + row * COLS + cols, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(mask + mask_row + cols, mask=inside, other=0.0).to(tl.float32)
    # Product and sum are rounded one after the other, as eager stores them.
    scaled = (s * scale).to(scores.dtype.element_ty).to(tl.float32)
    masked = (scaled + m).to(scores.dtype.element_ty).to(tl.float32)
    masked = tl.where(cols < COLS, masked, float("-inf"))
    power = tl.exp(masked - tl.max(masked, axis=1)[:, None])
    tl.store(out + row * COLS + cols, power / tl.sum(power, axis=1)[:, None], mask=inside)


@torch.fx.wrap
def masked_softmax(scores, mask):
    out = torch.empty_like(scores)
    batch, heads, queries, cols = scores.shape
    rows = batch * heads * queries
    _kernel[(triton.cdiv(rows, 8),)](
        scores, mask, out, rows, queries, 0 if mask.shape[0] == 1 else queries * cols,
        HEADS_QUERIES=heads * queries, COLS=cols, scale=SCALE, ROWS=8, BLOCK=triton.next_power_of_2(cols),
        num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return out


def replacement_func():
    return masked_softmax
