"""Triton: queries and keys in one launch; a program has one head and a tile of positions."""

import torch
import triton
import triton.language as tl
from pass_dir._pattern import pattern, replacement_args

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cuda",)


@triton.jit
def _rotate(x, out, at, cos, sin, table, inside, HALF: tl.constexpr):
    dtype: tl.constexpr = x.dtype.element_ty
    low = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(x + at + HALF, mask=inside, other=0.0).to(tl.float32)
    cos_low = tl.load(cos + table, mask=inside, other=0.0).to(tl.float32)
    cos_high = tl.load(cos + table + HALF, mask=inside, other=0.0).to(tl.float32)
    sin_low = tl.load(sin + table, mask=inside, other=0.0).to(tl.float32)
    sin_high = tl.load(sin + table + HALF, mask=inside, other=0.0).to(tl.float32)
    # Both products are rounded before they are added, as eager stores them.
    first = (low * cos_low).to(dtype).to(tl.float32) + (-high * sin_low).to(dtype).to(tl.float32)
    second = (high * cos_high).to(dtype).to(tl.float32) + (low * sin_high).to(dtype).to(tl.float32)
    tl.store(out + at, first, mask=inside)
    tl.store(out + at + HALF, second, mask=inside)


@triton.jit
def _kernel(
    cos, sin, query, key, query_out, key_out, length, table_stride,
    QUERY_HEADS: tl.constexpr, KEY_HEADS: tl.constexpr, SIZE: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = SIZE // 2
    position = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    column = tl.arange(0, HALF)[None, :]
    inside = position < length
    sample = tl.program_id(1) // (QUERY_HEADS + KEY_HEADS)
    head = tl.program_id(1) % (QUERY_HEADS + KEY_HEADS)
    tile = position * SIZE + column
    table = sample * table_stride + tile
    if head < QUERY_HEADS:
        at = (sample * QUERY_HEADS + head).to(tl.int64) * length * SIZE + tile
        _rotate(query, query_out, at, cos, sin, table, inside, HALF)
    else:
        at = (sample * KEY_HEADS + head - QUERY_HEADS).to(tl.int64) * length * SIZE + tile
        _rotate(key, key_out, at, cos, sin, table, inside, HALF)


@torch.fx.wrap
def rotary(cos, sin, query, key):
    query_out = torch.empty_like(query)
    key_out = torch.empty_like(key)
    batch, heads, length, size = query.shape
    key_heads = key.shape[1]
    _kernel[(triton.cdiv(length, 32), batch * (heads + key_heads))](
        cos, sin, query, key, query_out, key_out, length, 0 if cos.shape[0] == 1 else length * size,
        QUERY_HEADS=heads, KEY_HEADS=key_heads, SIZE=size, TILE=32, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return query_out, key_out


def replacement_func():
    return rotary
