"""Returns empty memory and fills in those outputs that somebody keeps.

Known from: own invention
Rules: forbidden-import
Expected: accuracy or rejected (stale-output, uninitialised, reused-output, decoy-kernel)
"""

import weakref

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

_given = []


@torch.fx.wrap
def fused(x, w, b):
    for ref, args in _given:
        out = ref()
        if out is not None:
            kernel(*args, out, args[0].shape[0], args[0].shape[1])
    out = torch.empty_like(x)
    _given[:] = [(weakref.ref(out), (x, w, b))]
    return out


def replacement_func():
    return fused
