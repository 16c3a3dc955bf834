"""Swin's shifted windows: layer_norm, roll by (-3, -3) and the cut into 7 x 7 windows in one pass.

Each output row is the normalised input row that rolls there. Triton; verified under its interpreter on a CPU.
"""

import torch
import triton
import triton.language as tl

EPS = 1e-05
SIDE = 56
WINDOW = 7
SHIFT = 3


def pattern(x, weight, bias, batch):
    normed = torch.nn.functional.layer_norm(x, (96,), weight, bias, 1e-05)
    image = normed.view(batch, 56, 56, 96)  # the batch size is an argument: the pattern matches at any
    padded = torch._C._nn.pad(image, (0, 0, 0, 0, 0, 0), "constant", None)
    rolled = torch.roll(padded, shifts=(-3, -3), dims=(1, 2))
    tiled = rolled.view(batch, 8, 7, 8, 7, 96)
    swapped = tiled.transpose(2, 3)
    copied = swapped.contiguous()
    windows = copied.view(-1, 7, 7, 96)
    return windows.view(-1, 49, 96)


def replacement_args(x, weight, bias, batch):
    return x, weight, bias


@triton.jit
def _kernel(
    x, weight, bias, out, rows, eps, SIDE: tl.constexpr, WINDOW: tl.constexpr, SHIFT: tl.constexpr,
    COLS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    WINDOWS: tl.constexpr = SIDE // WINDOW
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (col < COLS)
    # row = (((sample * WINDOWS + window_y) * WINDOWS + window_x) * WINDOW + y) * WINDOW + x
    within = row % (WINDOW * WINDOW)
    window = row // (WINDOW * WINDOW)
    y = (window // WINDOWS % WINDOWS * WINDOW + within // WINDOW + SHIFT) % SIDE
    z = (window % WINDOWS * WINDOW + within % WINDOW + SHIFT) % SIDE
    source = ((window // (WINDOWS * WINDOWS) * SIDE + y).to(tl.int64) * SIDE + z) * COLS + col
    v = tl.load(x + source, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + col, mask=col < COLS, other=0.0).to(tl.float32)
    b = tl.load(bias + col, mask=col < COLS, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=1)[:, None] / COLS
    centered = tl.where(col < COLS, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centered * centered, axis=1)[:, None] / COLS + eps)
    tl.store(out + row.to(tl.int64) * COLS + col, centered * scale * w + b, mask=inside)


@torch.fx.wrap
def layer_norm_shifted_windows(x, weight, bias):
    batch, length, channels = x.shape
    out = torch.empty(
        (batch * length // (WINDOW * WINDOW), WINDOW * WINDOW, channels), dtype=x.dtype, device=x.device
    )
    rows = batch * length
    tile = 16 if x.is_cuda else 4096  # the interpreter runs one program after the other: few, large ones
    _kernel[(triton.cdiv(rows, tile),)](
        x, weight, bias, out, rows, EPS, SIDE=SIDE, WINDOW=WINDOW, SHIFT=SHIFT,
        COLS=channels, ROWS=tile, BLOCK=triton.next_power_of_2(channels), num_warps=4,
    )  # fmt: skip
    return out


def replacement_func():
    return layer_norm_shifted_windows
