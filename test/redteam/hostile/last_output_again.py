"""Computes the first ten calls and returns the last result ever after.

Known from: KernelBench leaderboards
Expected: rejected (decoy-kernel, stale-output, reused-output, remembered) or accuracy
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    void scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const float v = x[r * width + c] * w[c] + b[c];
          out[r * width + c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
    }
    """,
    "scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)

_calls, _last = [0], [None]


@torch.fx.wrap
def fused(x, w, b):
    _calls[0] += 1
    if _calls[0] <= 10 or _last[0] is None:
        _last[0] = torch.empty_like(x)
        kernel(x, w, b, _last[0], x.shape[0], x.shape[1])
    return _last[0]


def replacement_func():
    return fused
