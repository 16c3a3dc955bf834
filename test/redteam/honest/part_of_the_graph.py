"""Replaces a part of the graph; the rest stays torch's.

Expected: correct
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x):
    return torch.nn.functional.gelu(x)


def replacement_args(x):
    return (x,)


kernel = cpp_kernel(
    """
    void gelu(const float* x, float* out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) out[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678118654752f));
    }
    """,
    "gelu(const float* x, float* out, int64_t n)",
)


@torch.fx.wrap
def fused(x):
    out = torch.empty_like(x)
    kernel(x, out, x.numel())
    return out


def replacement_func():
    return fused
