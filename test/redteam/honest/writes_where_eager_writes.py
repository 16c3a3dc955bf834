"""Changes its input in place, because eager does, and returns something new.

Graph: accumulate
Expected: correct
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, y):
    total = x.add_(y)
    return torch.relu(total)


def replacement_args(x, y):
    return (x, y)


kernel = cpp_kernel(
    """
    void add_relu(float* x, const float* y, float* out, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        x[i] += y[i];
        out[i] = x[i] > 0.0f ? x[i] : 0.0f;
      }
    }
    """,
    "add_relu(float* x, const float* y, float* out, int64_t n)",
)


@torch.fx.wrap
def fused(x, y):
    out = torch.empty_like(x)
    kernel(x, y, out, x.numel())
    return out


def replacement_func():
    return fused
