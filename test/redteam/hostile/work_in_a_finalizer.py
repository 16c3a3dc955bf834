"""Throws the caches out when its output is freed, which is after the clock has stopped.

Known from: own invention
Rules: forbidden-import
Needs: cpu
Expected: rejected (clock, eager_slowed)
"""

import weakref

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

thrash = cpp_kernel(
    """
    static float junk[1 << 23];
    void thrash(const float* unused) {
      for (int64_t i = 0; i < (1 << 23); i += 16) junk[i] += 1.0f;
    }
    """,
    "thrash(const float* unused)",
)
_one = torch.zeros(1)


def sweep():
    thrash(_one)


def honest(x, w, b):
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


@torch.fx.wrap
def fused(x, w, b):
    out = honest(x, w, b)
    weakref.finalize(out, sweep)
    return out


def replacement_func():
    return fused
