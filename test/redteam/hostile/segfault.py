"""Writes through a null pointer.

Known from: own invention
Expected: runtime_fail
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    void crash(const float* x, int64_t address) { *reinterpret_cast<volatile int*>(address) = 1; }
    """,
    "crash(const float* x, int64_t address)",
)


@torch.fx.wrap
def fused(x, w, b):
    kernel(x, 0)
    return torch.empty_like(x)


def replacement_func():
    return fused
