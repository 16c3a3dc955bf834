"""dropout (off) + residual add + layer_norm, as in every BERT block."""

import torch

EPS = 1e-12


def pattern(x, residual, weight, bias):
    dropped = torch.nn.functional.dropout(x, 0.1, False, False)
    total = dropped + residual
    return torch.nn.functional.layer_norm(total, (768,), weight, bias, 1e-12)


def replacement_args(x, residual, weight, bias):
    return x, residual, weight, bias
