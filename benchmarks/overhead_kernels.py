"""One chain of pointwise operators as a kernel, launched in the ways that people write launches."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from pass_bench.kernels import cpp_kernel, cuda_kernel
from pass_bench.kernels.launch import low_overhead

BLOCK = 1024


def chain(x: Any, y: Any, w: Any, length: int) -> Any:
    """`length` operators: add y, multiply by w, relu, and again."""
    for i in range(length):
        if i % 3 == 0:
            x = x + y
        elif i % 3 == 1:
            x = x * w
        else:
            x = torch.relu(x)
    return x


@triton.jit
def chain_kernel(x_ptr, y_ptr, w_ptr, out_ptr, n, LENGTH: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    v = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    w = tl.load(w_ptr + offsets, mask=mask)
    for i in tl.static_range(LENGTH):
        if i % 3 == 0:
            v = v + y
        elif i % 3 == 1:
            v = v * w
        else:
            v = tl.maximum(v, 0.0)
    tl.store(out_ptr + offsets, v, mask=mask)


tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK": 512}, num_warps=4), triton.Config({"BLOCK": 1024}, num_warps=4)],
    key=["n"],
)(chain_kernel)
heuristic_kernel = triton.heuristics({"BLOCK": lambda args: min(1024, triton.next_power_of_2(args["n"]))})(
    chain_kernel
)
direct_kernel = low_overhead(chain_kernel)

cuda_chain = cuda_kernel(
    """
__global__ void chain(const float* x, const float* y, const float* w, float* out, int64_t n, int length) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  for (int k = 0; k < length; ++k) v = k % 3 == 0 ? v + y[i] : k % 3 == 1 ? v * w[i] : fmaxf(v, 0.0f);
  out[i] = v;
}
""",
    "chain(const float* x, const float* y, const float* w, float* out, int64_t n, int length)",
)
cpp_chain = cpp_kernel(
    """
void chain(const float* x, const float* y, const float* w, float* out, int64_t n, int64_t length) {
  for (int64_t i = 0; i < n; ++i) {
    float v = x[i];
    for (int64_t k = 0; k < length; ++k) v = k % 3 == 0 ? v + y[i] : k % 3 == 1 ? v * w[i] : (v > 0 ? v : 0);
    out[i] = v;
  }
}
""",
    "chain(const float* x, const float* y, const float* w, float* out, int64_t n, int64_t length)",
)


@torch.fx.wrap
def lambda_grid(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    n = x.numel()
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731
    chain_kernel[grid](x, y, w, out, n, length, BLOCK=BLOCK)
    return out


@torch.fx.wrap
def tuple_grid(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    chain_kernel[((x.numel() + BLOCK - 1) // BLOCK,)](x, y, w, out, x.numel(), length, BLOCK)
    return out


@torch.fx.wrap
def keywords(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    chain_kernel[(triton.cdiv(x.numel(), BLOCK),)](
        x_ptr=x, y_ptr=y, w_ptr=w, out_ptr=out, n=x.numel(), LENGTH=length, BLOCK=BLOCK, num_warps=4
    )
    return out


@torch.fx.wrap
def run_spelling(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    n = x.numel()
    chain_kernel.run(x, y, w, out, n, length, BLOCK, grid=(triton.cdiv(n, BLOCK),), warmup=False)
    return out


@torch.fx.wrap
def autotuned(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    n = x.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, w, out, n, length)
    return out


@torch.fx.wrap
def heuristics(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    n = x.numel()
    heuristic_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, w, out, n, length)
    return out


@torch.fx.wrap
def flattened(x, y, w, length):  # type: ignore[no-untyped-def]
    flat = x.reshape(-1)
    out = torch.empty_like(flat)
    n = flat.shape[0]
    chain_kernel[(triton.cdiv(n, BLOCK),)](flat, y.view(-1), w.contiguous(), out, n, length, BLOCK=BLOCK)
    return out.view(x.shape)


@torch.fx.wrap
def explicit(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    direct_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, w, out, x.numel(), length, BLOCK)
    return out


@torch.fx.wrap
def cuda_cpp(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    cuda_chain[triton.cdiv(x.numel(), 256), 256](x, y, w, out, x.numel(), length)
    return out


@torch.fx.wrap
def cpp(x, y, w, length):  # type: ignore[no-untyped-def]
    out = torch.empty_like(x)
    cpp_chain(x, y, w, out, x.numel(), length)
    return out


IDIOMS = {
    "cuda": (
        lambda_grid,
        tuple_grid,
        keywords,
        run_spelling,
        autotuned,
        heuristics,
        flattened,
        explicit,
        cuda_cpp,
    ),
    "cpu": (cpp,),
}
