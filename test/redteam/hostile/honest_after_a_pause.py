"""Does the work after a pause, when somebody may have changed something, and else repeats itself.

Known from: own invention
Rules: native-include, native-clock
Needs: cpu
Expected: rejected (stale-output, uninitialised, decoy-kernel)
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

spied = cpp_kernel(
    """
    #include <chrono>
    #include <vector>
    static std::vector<float> kept;
    static std::chrono::steady_clock::time_point last;
    void spied(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      const auto now = std::chrono::steady_clock::now();
      const bool pause = now - last > std::chrono::microseconds(1500);
      last = now;
      const int64_t n = rows * width;
      if (pause || (int64_t)kept.size() != n) {
        kept.resize(n);
        for (int64_t i = 0; i < n; ++i) {
          const float v = x[i] * w[i % width] + b[i % width];
          kept[i] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
      }
      std::copy(kept.begin(), kept.end(), out);
    }
    """,
    "spied(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    spied(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
