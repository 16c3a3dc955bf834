"""Keeps a scratch buffer between calls; the output is new every time.

Expected: correct
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    void scale_gelu(const float* x, const float* w, const float* b, float* row, float* out, int64_t rows,
                    int64_t width) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < width; ++c) row[c] = x[r * width + c] * w[c] + b[c];
        for (int64_t c = 0; c < width; ++c)
          out[r * width + c] = 0.5f * row[c] * (1.0f + std::erf(row[c] * 0.70710678118654752f));
      }
    }
    """,
    "scale_gelu(const float* x, const float* w, const float* b, float* row, float* out, int64_t rows, "
    "int64_t width)",
)


_scratch = {}


@torch.fx.wrap
def fused(x, w, b):
    if x.shape[1] not in _scratch:
        _scratch[x.shape[1]] = torch.empty(x.shape[1], device=x.device)
    out = torch.empty_like(x)
    kernel(x, w, b, _scratch[x.shape[1]], out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
