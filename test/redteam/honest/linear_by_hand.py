"""Multiplies matrices in its own kernel, in double precision.

Graph: linear_relu
Expected: correct
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.relu(torch.nn.functional.linear(x, w, b))


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    void linear_relu(const float* x, const float* w, const float* b, float* out, int64_t m, int64_t n,
                     int64_t k) {
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = b[j];
          for (int64_t l = 0; l < k; ++l) sum += (double)x[i * k + l] * w[j * k + l];
          out[i * n + j] = sum > 0 ? (float)sum : 0.0f;
        }
    }
    """,
    "linear_relu(const float* x, const float* w, const float* b, float* out, int64_t m, int64_t n, "
    "int64_t k)",
)


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype, device=x.device)
    kernel(x, w, b, out, x.shape[0], w.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
