"""Keeps the native function of a kernel, beside which a decoy is launched for the log.

Known from: own invention
Needs: cpu
Expected: rejected (decoy-kernel)
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

decoy = cpp_kernel("void decoy(float* x) { x[0] = 0; }", "decoy(float* x)")
kernel.compile()
bound = kernel.func


@torch.fx.wrap
def fused(x, w, b):
    decoy(torch.empty(1))
    out = torch.empty_like(x)
    bound(x, w, b, out, x.shape[0], x.shape[1])
    return out


def replacement_func():
    return fused
