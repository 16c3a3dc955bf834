"""The tail of a squeeze-and-excite block: every channel times the sigmoid of its gate."""

import torch


def pattern(gate, x):
    scale = torch.sigmoid(gate)
    return x * scale


def replacement_args(gate, x):
    return gate, x
