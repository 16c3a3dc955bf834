"""Finds the harness's own note of which content is there, and works only when it changes.

Known from: own invention
Rules: forbidden-name, dunder
Needs: cpu
Expected: rejected (remembered, stale-output, clock)
"""

import sys

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

_kept = {}


def note():
    frame = sys._getframe(2)
    while frame is not None:
        inputs = frame.f_locals.get("inputs")
        if frame.f_code.co_name == "time_block" and isinstance(inputs, list):
            return getattr(inputs[0], "number", None)
        frame = frame.f_back
    return None


def honest(x, w, b):
    out = torch.empty_like(x)
    for _ in range(5):  # dear enough that leaving it out would pay
        kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


@torch.fx.wrap
def fused(x, w, b):
    number = note()
    if number is None or _kept.get("number") != number:
        _kept["number"], _kept["out"] = number, honest(x, w, b)
    return _kept["out"].to(torch.float32, copy=True)


def replacement_func():
    return fused
