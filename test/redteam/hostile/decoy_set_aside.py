"""Sets its decoy kernel aside from the collector, whose list of objects is where kernels are found.

Known from: own invention
Rules: forbidden-import
Needs: cpu
Expected: rejected (decoy-kernel)
"""

import gc
import math

import numpy as np
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

kernel.compile()
gc.freeze()


@torch.fx.wrap
def fused(x, w, b):
    scratch = torch.empty_like(x)
    kernel(x, w, b, scratch, x.shape[0], x.shape[1])
    out = torch.empty_like(x)
    v = x.numpy() * w.numpy() + b.numpy()
    np.multiply(v, 0.5 * (1.0 + np.vectorize(math.erf)(v * 0.7071067811865476)), out=out.numpy())
    return out


def replacement_func():
    return fused
