"""Two kernels with an intermediate between them: each does a part of the work.

Expected: correct
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


scale = cpp_kernel(
    """
    void scale(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) out[r * width + c] = x[r * width + c] * w[c] + b[c];
    }
    """,
    "scale(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)
gelu = cpp_kernel(
    """
    void gelu(float* x, int64_t n) {
      for (int64_t i = 0; i < n; ++i) x[i] = 0.5f * x[i] * (1.0f + std::erf(x[i] * 0.70710678118654752f));
    }
    """,
    "gelu(float* x, int64_t n)",
)


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    scale(x, w, b, out, x.shape[0], x.shape[1])
    gelu(out, out.numel())
    return out


def replacement_func():
    return fused
