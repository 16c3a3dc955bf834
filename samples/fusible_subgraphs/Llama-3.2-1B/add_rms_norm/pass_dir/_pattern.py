"""Residual add + RMS norm, both of whose results the model goes on with."""

import torch

EPS = 1e-05


def pattern(x, residual, weight, dtype):
    total = x + residual
    wide = total.to(torch.float32)
    square = wide.pow(2)
    mean = square.mean(-1, keepdim=True)
    shifted = mean + 1e-05
    scale = torch.rsqrt(shifted)
    scaled = wide * scale
    narrow = scaled.to(dtype)  # an argument, so that the pattern matches in every dtype
    return total, weight * narrow


def replacement_args(x, residual, weight, dtype):
    return x, residual, weight
