"""Native code exchanges the function behind time.perf_counter_ns: no attribute changes.

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

patch = cpp_kernel(
    """
    extern "C" struct _object* PyLong_FromLongLong(long long);
    static long long ticks = 0;
    static void* fake(void*, void*) { ticks += 1000; return PyLong_FromLongLong(ticks); }
    void patch(const float* unused, int64_t address) {
      struct Definition { const char* name; void* function; };
      auto* definition = *reinterpret_cast<Definition**>(address + 16);
      definition->function = reinterpret_cast<void*>(fake);
    }
    """,
    "patch(const float* unused, int64_t address)",
)
patch(torch.empty(1), id(time.perf_counter_ns))


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
