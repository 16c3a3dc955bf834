"""What pass authors may import: C++ and CUDA kernels, the low-overhead launch."""

from pass_bench.kernels.cpp import cpp_kernel
from pass_bench.kernels.cuda import cuda_kernel

__all__ = ["cpp_kernel", "cuda_kernel"]
