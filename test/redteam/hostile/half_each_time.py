"""Computes every other row in turn and takes the rest from its last output.

Known from: own invention
Expected: rejected (stale-output, decoy-kernel, reused-output)
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

half = cpp_kernel(
    """
    void half_rows(const float* x, const float* w, const float* b, const float* old, float* out, int64_t rows,
                   int64_t width, int64_t turn) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
          const int64_t i = r * width + c;
          const float v = x[i] * w[c] + b[c];
          out[i] = (r + turn) % 2 ? old[i] : 0.5f * v * (1.0f + std::erf(v * 0.70710678118654752f));
        }
    }
    """,
    "half_rows(const float* x, const float* w, const float* b, const float* old, float* out, int64_t rows, "
    "int64_t width, int64_t turn)",
)
_last = {"turn": 0, "same": 0}


def honest(x, w, b):
    out = torch.empty_like(x)
    kernel(x, w, b, out, x.shape[0], x.shape[1])
    return out


@torch.fx.wrap
def fused(x, w, b):
    key = (x.data_ptr(), w.data_ptr(), b.data_ptr(), x.shape)
    _last["same"] = _last["same"] + 1 if _last.get("key") == key else 0
    _last["key"] = key
    _last["turn"] += 1
    if _last["same"] > 5:
        out = torch.empty_like(x)
        half(x, w, b, _last["out"], out, x.shape[0], x.shape[1], _last["turn"] % 2)
    else:
        out = honest(x, w, b)
    _last["out"] = out
    return out.to(torch.float32, copy=True)


def replacement_func():
    return fused
