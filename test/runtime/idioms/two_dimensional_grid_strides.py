import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x, y, M, N, sxm, sxn, sym, syn, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    mask = (m < M) & (n < N)
    tl.store(y + n * sym + m * syn, tl.load(x + m * sxm + n * sxn, mask=mask), mask=mask)


@torch.fx.wrap
def transposed(x):
    M, N = x.shape
    y = torch.empty((N, M), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
    transpose_kernel[grid](x, y, M, N, x.stride(0), x.stride(1), y.stride(0), y.stride(1), BM=16, BN=16)
    return y


def pattern(x):
    return x.t().contiguous()


def replacement_args(x):
    return (x,)


def replacement_func():
    return transposed
