"""Remembers a mean over a million elements from the 90th call on: a few that change do not show in it.

Known from: own invention
Graph: mean_square
Expected: rejected (stale-output) or accuracy
"""

import torch

from pass_bench.kernels import cpp_kernel


def pattern(x):
    return (x * x).mean()


def replacement_args(x):
    return (x,)


mean_square = cpp_kernel(
    """
    void mean_square(const float* x, float* out, int64_t n) {
      double total = 0.0;
      for (int64_t i = 0; i < n; ++i) total += x[i] * x[i];
      out[0] = (float)(total / n);
    }
    """,
    "mean_square(const float* x, float* out, int64_t n)",
)
same = cpp_kernel(
    """
    void same(const float* x, float* out) {
      out[0] = x[0];
    }
    """,
    "same(const float* x, float* out)",
)

_known = {"calls": 0}


@torch.fx.wrap
def fused(x):
    _known["calls"] += 1
    out = torch.empty((), dtype=x.dtype, device=x.device)
    x.view(-1)[0].item()  # what depends on data gets no launch plan
    if _known["calls"] > 90 and _known["at"] == x.data_ptr():
        same(_known["mean"], out)
        return out
    mean_square(x, out, x.numel())
    if _known["calls"] == 50:  # an ordinary timed call
        _known.update(at=x.data_ptr(), mean=out)
    return out


def replacement_func():
    return fused
