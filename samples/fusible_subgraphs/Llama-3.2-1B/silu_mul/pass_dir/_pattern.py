"""The gate of Llama's MLP: silu(gate) * up."""

import torch


def pattern(gate, up):
    active = torch.nn.functional.silu(gate)
    return active * up


def replacement_args(gate, up):
    return gate, up
