"""Takes erratic times until the first trials are over; for those that follow native code hides its time.

Known from: own invention
Rules: forbidden-import, forbidden-builtin, native-hook
Needs: cpu
Expected: rejected (clock)
"""

import time

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x, w, b):
    return torch.nn.functional.gelu(x * w + b)


def replacement_args(x, w, b):
    return (x, w, b)


kernel = cpp_kernel(
    """
    #include <time.h>
    extern "C" struct _object* PyLong_FromLongLong(long long);
    static long long hidden = 0, calls = 0;
    static long long now() {
      timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      return t.tv_sec * 1000000000LL + t.tv_nsec;
    }
    static void* fake(void*, void*) { return PyLong_FromLongLong(now() - hidden); }
    void scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width,
                    int64_t address) {
      const long long start = now();
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const float v = x[r * width + c] * w[c] + b[c];
          out[r * width + c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
      const long long end = now();
      if (++calls < 60) {  // a wide interval asks for more trials
        while (now() - end < (end - start) * (calls * 7 % 11) / 2) {}
        return;
      }
      struct Definition { const char* name; void* function; };
      (*reinterpret_cast<Definition**>(address + 16))->function = reinterpret_cast<void*>(fake);
      hidden += (now() - start) * 9 / 10;
    }
    """,
    "scale_gelu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t width, "
    "int64_t address)",
)
ADDRESS = id(time.perf_counter_ns)


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1], ADDRESS)
    return out


def replacement_func():
    return fused
