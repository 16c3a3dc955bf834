"""Leaves a dispatch mode on, through which all of eager's operators go.

Known from: own invention
Rules: torch-state, tensor-subclass
Expected: rejected (flags, eager_slowed, clock) or pass_miss
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


class Slow(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


Slow().__enter__()


@torch.fx.wrap
def fused(x, w, b):
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
