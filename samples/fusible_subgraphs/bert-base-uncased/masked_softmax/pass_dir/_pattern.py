"""Attention scores: scale, additive mask, softmax over the last dimension, dropout (off)."""

import torch

SCALE = 0.125


def pattern(scores, mask):
    scaled = scores * 0.125
    masked = scaled + mask
    weights = torch.nn.functional.softmax(masked, dim=-1)
    return torch.nn.functional.dropout(weights, p=0.0, training=False)


def replacement_args(scores, mask):
    return scores, mask
