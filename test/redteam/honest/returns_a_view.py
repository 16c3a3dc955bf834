"""Returns a view of its input, where eager returns one too.

Graph: views
Expected: correct
"""

import torch


def pattern(x):
    return x.transpose(0, 1).unsqueeze(0)


def replacement_args(x):
    return (x,)


@torch.fx.wrap
def viewed(x):
    return x.t().unsqueeze(0)


def replacement_func():
    return viewed
