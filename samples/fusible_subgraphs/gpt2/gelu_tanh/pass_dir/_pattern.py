"""GPT-2's gelu, written out: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""

import torch


def pattern(x):
    half = 0.5 * x
    cube = torch.pow(x, 3.0)
    small = 0.044715 * cube
    inner = x + small
    scaled = 0.7978845608028654 * inner
    bent = torch.tanh(scaled)
    gate = 1.0 + bent
    return half * gate


def replacement_args(x):
    return (x,)
