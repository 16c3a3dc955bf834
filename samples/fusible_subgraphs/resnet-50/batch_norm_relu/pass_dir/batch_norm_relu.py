"""Inference batch_norm + relu in one pass over memory. Triton; verified under its interpreter on a CPU."""

import torch
import triton
import triton.language as tl

EPS = 1e-05


def pattern(x, mean, var, weight, bias):
    normed = torch.nn.functional.batch_norm(x, mean, var, weight, bias, False, 0.1, 1e-05)
    return torch.nn.functional.relu(normed, inplace=False)


def replacement_args(x, mean, var, weight, bias):
    return x, mean, var, weight, bias


@triton.jit
def _kernel(x, mean, var, weight, bias, out, size, eps, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    channel = plane % CHANNELS
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    start = plane.to(tl.int64) * size
    v = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
    m = tl.load(mean + channel).to(tl.float32)
    scale = tl.rsqrt(tl.load(var + channel).to(tl.float32) + eps) * tl.load(weight + channel).to(tl.float32)
    normed = ((v - m) * scale + tl.load(bias + channel).to(tl.float32)).to(x.dtype.element_ty)
    tl.store(out + start + at, tl.where(normed < 0.0, 0.0, normed), mask=inside)  # a NaN stays one


@torch.fx.wrap
def batch_norm_relu(x, mean, var, weight, bias):
    out = torch.empty_like(x)
    channels = x.shape[1]
    planes = x.shape[0] * channels
    size = x.numel() // planes
    block = 2048 if x.is_cuda else 16384  # the interpreter runs one program after the other: few, large ones
    _kernel[(planes, triton.cdiv(size, block))](
        x, mean, var, weight, bias, out, size, EPS, CHANNELS=channels, BLOCK=block, num_warps=8
    )
    return out


def replacement_func():
    return batch_norm_relu
