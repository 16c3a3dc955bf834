"""Keeps its CUDA kernel with grid and block chosen beforehand.

Graph: large_add
Needs: gpu
Expected: correct
"""

import torch

from pass_bench.kernels import cuda_kernel


def pattern(x, y):
    return torch.relu(x + y)


def replacement_args(x, y):
    return (x, y)


add_relu = cuda_kernel(
    """
    __global__ void add_relu(const float* x, const float* y, float* out, int64_t n) {
      for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) {
        const float v = x[i] + y[i];
        out[i] = v > 0.0f ? v : 0.0f;
      }
    }
    """,
    "add_relu(const float* x, const float* y, float* out, int64_t n)",
)[1056, 256]


@torch.fx.wrap
def fused(x, y):
    out = torch.empty_like(x)
    add_relu(x, y, out, x.numel())
    return out


def replacement_func():
    return fused
