"""Remembers by two hundred elements of each input, read in native code for next to nothing.

Known from: own invention
Needs: cpu
Expected: rejected (stale-output, decoy-kernel, clock)
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

sampled = cpp_kernel(
    """
    #include <vector>
    static std::vector<float> kept;
    static uint64_t key;
    static uint64_t some(const float* x, int64_t n) {
      uint64_t h = 1;
      for (int64_t i = 0; i < n; i += n / 200 + 1)
        h = (h ^ *(const uint32_t*)(x + i)) * 0x9E3779B97F4A7C15ull;
      return h;
    }
    void sampled(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      const int64_t n = rows * width;
      const uint64_t now = some(x, n) + 3 * some(w, width) + 5 * some(b, width);
      if (now != key || (int64_t)kept.size() != n) {
        key = now;
        kept.resize(n);
        for (int64_t i = 0; i < n; ++i) {
          const float v = x[i] * w[i % width] + b[i % width];
          kept[i] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
      }
      std::copy(kept.begin(), kept.end(), out);
    }
    """,
    "sampled(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    sampled(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
