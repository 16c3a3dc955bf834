"""CUDA kernels. On a machine with a GPU, one command checks them: python -m pytest -m gpu test/kernels"""

from __future__ import annotations

import pytest
import torch

from pass_bench.errors import HarnessFailure
from pass_bench.kernels import cuda_kernel, nvrtc
from pass_bench.kernels.errors import KernelCompileError, UnsupportedOnCpu
from pass_bench.kernels.extension import INCLUDE, build_extension

FLOATS = ("float32", "float16", "bfloat16")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
SCALED_ADD = r"""
template <typename T>
__global__ void scaled_add(const T* x, const T* y, T* out, int64_t n, float scale) {
  const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (i < n) out[i] = T(pn::round<T>(float(x[i]) + float(y[i])) * scale);
}
"""
SCALED_ADD_SIGNATURE = "scaled_add(const T* x, const T* y, T* out, int64_t n, float scale)"


def _needs_nvrtc() -> None:
    try:
        nvrtc.nvrtc()
    except HarnessFailure as missing:
        pytest.skip(str(missing))


def test_every_dtype_compiles_for_hopper_and_ampere():
    _needs_nvrtc()
    kernel = cuda_kernel(SCALED_ADD, SCALED_ADD_SIGNATURE, FLOATS)
    for architecture in ("sm_80", "sm_90a"):
        names = {kernel.compile(dtype, architecture)[1] for dtype in FLOATS}
        assert len(names) == 3
    cubin, name = kernel.compile("float16", "sm_90a")
    assert cubin[:4] == b"\x7fELF"
    assert name.encode() in cubin


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("__global__ void f(int n) {\n  int y = ;\n}", "line 2: expected an expression"),
        ("__global__ void g(int n) {}", "'f'"),
    ],
)
def test_compile_errors_carry_the_authors_line(source: str, said: str):
    _needs_nvrtc()
    with pytest.raises(KernelCompileError) as caught:
        cuda_kernel(source, "f(int n)").compile(None, "sm_90a")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_launcher_compiles_without_a_gpu():
    module = build_extension("cuda_launch", (INCLUDE / "pn_launch.cpp").read_text())
    assert callable(module.launch)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_a_launch_says_so():
    kernel = cuda_kernel(SCALED_ADD, SCALED_ADD_SIGNATURE, FLOATS)
    x = torch.zeros(4)
    with pytest.raises(UnsupportedOnCpu, match="'scaled_add' needs an NVIDIA GPU"):
        kernel[1, 32](x, x, x, 4, 1.0)
    with pytest.raises(TypeError, match="takes 5 arguments, got 3"):
        kernel[1, 32](x, x, x)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 255, 256, 100_003])
def test_values_equal_eager_on_a_gpu(dtype: str, n: int):
    kernel = cuda_kernel(SCALED_ADD, SCALED_ADD_SIGNATURE, FLOATS)
    x = torch.randn(n, device="cuda").to(getattr(torch, dtype))
    y, out = torch.randn(n, device="cuda").to(x.dtype), torch.empty_like(x)
    kernel[-(-n // 256), 256](x, y, out, n, 3.0)
    assert torch.equal(out, (x + y) * 3.0)


@pytest.mark.gpu
@needs_gpu
def test_dynamic_shared_memory_views_lists_and_streams():
    kernel = cuda_kernel(
        r"""
        __global__ void reverse(pn::view<const float, 2> v, pn::list<const float> extra, float* out,
                                bool twice) {
          extern __shared__ float row[];
          const int r = blockIdx.x, c = threadIdx.x, n = blockDim.x;
          row[c] = v.data[r * v.strides[0] + c * v.strides[1]];
          __syncthreads();
          float value = row[n - 1 - c];
          for (int64_t i = 0; i < extra.count; ++i) value += extra[i][0];
          out[r * n + c] = twice ? 2 * value : value;
        }""",
        "reverse(view<const float, 2> v, list<const float> extra, float* out, bool twice)",
    )
    v = torch.randn(64, 10, device="cuda").t()
    extra = [torch.ones(1, device="cuda"), torch.full((1,), 2.0, device="cuda")]
    expected = (v.flip(1) + 3.0) * 2
    for shared in (64 * 4, 100 * 1024):  # more than 48 KiB must be asked for
        out = torch.empty(10, 64, device="cuda")
        kernel[10, 64, shared](v, extra, out, True)
        assert torch.allclose(out, expected)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        out = torch.empty(10, 64, device="cuda")
        kernel[(10,), (64,), 256](v, extra, out, True)
    stream.synchronize()
    assert torch.allclose(out, expected)


@pytest.mark.gpu
@needs_gpu
def test_wrong_arguments_are_named_on_a_gpu():
    kernel = cuda_kernel(SCALED_ADD, SCALED_ADD_SIGNATURE, FLOATS)
    x = torch.zeros(64, device="cuda")
    with pytest.raises(ValueError, match=r"scaled_add: argument 2 \(y\) is not on the current device"):
        kernel[1, 64](x, x.cpu(), x, 64, 1.0)
    with pytest.raises(TypeError, match=r"argument 3 \(out\) is float16, expected float32"):
        kernel[1, 64](x, x, x.half(), 64, 1.0)
    with pytest.raises(TypeError, match=r"argument 1 \(x\) is int64, expected one of"):
        kernel[1, 64](x.long(), x, x, 64, 1.0)
    with pytest.raises(ValueError, match=r"argument 1 \(x\) is not contiguous"):
        kernel[1, 64](x.view(8, 8).t(), x, x, 64, 1.0)
    with pytest.raises(RuntimeError, match="cuLaunchKernel failed"):
        kernel[1, 4096](x, x, x, 64, 1.0)
    with pytest.raises(TypeError, match="1 to 3 dimensions"):
        kernel[(1, 1, 1, 1), 64](x, x, x, 64, 1.0)
    kernel[0, 64](x[:0], x[:0], x[:0], 0, 1.0)  # an empty grid launches nothing


@pytest.mark.gpu
@needs_gpu
def test_16_bit_conversions_round_as_eager_does_on_a_gpu():
    kernel = cuda_kernel(
        "template <typename T> __global__ void narrow(const float* x, T* out, int64_t n) {\n"
        "  int64_t i = blockIdx.x * 256l + threadIdx.x;\n  if (i < n) out[i] = T(x[i]);\n}",
        "narrow(const float* x, T* out, int64_t n)",
        ("float16", "bfloat16"),
    )
    bits = torch.randint(-(2**31), 2**31 - 1, (1 << 20,), device="cuda", dtype=torch.int64)
    x = bits.to(torch.int32).view(torch.float32)
    for dtype in (torch.float16, torch.bfloat16):
        out = torch.empty(len(x), dtype=dtype, device="cuda")
        kernel[len(x) // 256, 256](x, out, len(x))
        expected = x.to(dtype)
        assert torch.equal(out.isnan(), expected.isnan())
        assert torch.equal(out.nan_to_num(), expected.nan_to_num())
