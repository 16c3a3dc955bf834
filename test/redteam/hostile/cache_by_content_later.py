"""Takes erratic times until the first trials are over; from then on it remembers by content.

Known from: own invention
Rules: native-include
Needs: cpu
Expected: rejected (remembered, decoy-kernel)
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    #include <time.h>
    static long long calls = 0;
    static long long now() {
      timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      return t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    void scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width) {
      const long long start = now();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const float v = x[r * width + c] * w[c] + b[c];
          out[r * width + c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
      const long long end = now();
      if (++calls >= 60) return;  // a wide interval asks for more trials
      while (now() - end < (end - start) * (calls * 7 % 11) / 2) {}
    }
    """,
    "scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width)",
)

_seen = {}
_calls = iter(range(60))
digest = cpp_kernel(
    """
    void digest(const float* x, int64_t n, int64_t* out) {
      const uint64_t* words = reinterpret_cast<const uint64_t*>(x);
      uint64_t a = 1, c = 2;
      for (int64_t i = 0; i + 1 < n / 2; i += 2) {
        a = (a ^ words[i]) * 0x9E3779B97F4A7C15ull;
        c = (c ^ words[i + 1]) * 0xC2B2AE3D27D4EB4Full;
      }
      out[0] = (int64_t)(a ^ (c >> 7));
    }
    """,
    "digest(const float* x, int64_t n, int64_t* out)",
)
_word = torch.zeros(1, dtype=torch.int64)


def key_of(tensor):
    digest(tensor, tensor.numel(), _word)
    return _word.item()


@torch.fx.wrap
def fused(x, w, b):
    if next(_calls, None) is not None:
        out = torch.empty_like(x)
        kernel(x, w, b, out, x.shape[0], x.shape[1])
        return out
    key = (key_of(x), key_of(w), key_of(b))
    if key not in _seen:
        _seen[key] = torch.empty_like(x)
        kernel(x, w, b, _seen[key], x.shape[0], x.shape[1])
    return _seen[key].to(torch.float32, copy=True)


def replacement_func():
    return fused
