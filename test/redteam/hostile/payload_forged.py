"""Replaces the function that packs outputs, so that what was run is not what is compared.

Known from: own invention
Rules: harness-import, patched-module
Expected: rejected (patched, stale-output)
"""

import torch

import pass_bench.worker.candidate as candidate
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

_write = candidate.write_payload


def forged(outputs, inputs, changed, budget_bytes):
    x, w, b = inputs
    return _write((torch.nn.functional.gelu(x * w + b),), inputs, changed, budget_bytes)


candidate.write_payload = forged


@torch.fx.wrap
def fused(x, w, b):
    return torch.empty_like(x)


def replacement_func():
    return fused
