"""C++ kernels: compiled once, called with tensors, rounding as eager rounds, readable errors."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pass_bench.kernels import cpp_kernel
from pass_bench.kernels.errors import KernelCompileError

FLOATS = ("float32", "float16", "bfloat16")
ADD = r"""
template <typename T> void add(const T* x, const T* y, T* out, int64_t n, double scale) {
  pn::parallel_for(n, 1 << 15, [&](int64_t begin, int64_t end) {
    pn::each(end - begin, [&](int64_t i, int count) {
      const pn::vec sum = pn::round<T>(pn::load(x + begin + i, count) + pn::load(y + begin + i, count));
      pn::store(out + begin + i, sum * static_cast<float>(scale), count);
    });
  });
}
"""
ADD_SIGNATURE = "add(const T* x, const T* y, T* out, int64_t n, double scale)"
# One source for all small kernels below: it is compiled once per signature, in about a second.
ELEMENTWISE = r"""
#define UNARY(NAME, RESULT) \
  template <typename T> void NAME(const T* x, T* out, int64_t n) { \
    pn::each(n, [&](int64_t i, int count) { \
      const pn::vec v = pn::load(x + i, count); \
      pn::store(out + i, RESULT, count); \
    }); \
  }
UNARY(exponential, pn::exp(v))
UNARY(sigmoid, pn::sigmoid(v))
UNARY(hyperbolic, pn::tanh(v))
UNARY(error, pn::erf(v))
"""


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory):
    before = os.environ.get("PASSNET_KERNEL_CACHE")
    os.environ["PASSNET_KERNEL_CACHE"] = str(tmp_path_factory.mktemp("kernels"))
    yield
    if before is None:
        del os.environ["PASSNET_KERNEL_CACHE"]
    else:
        os.environ["PASSNET_KERNEL_CACHE"] = before


@pytest.fixture(scope="module")
def add():
    return cpp_kernel(ADD, ADD_SIGNATURE, FLOATS)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1000, 100_003])
def test_values_equal_eager_bit_for_bit(add, dtype: str, n: int):
    x, y = torch.randn(2, n).to(getattr(torch, dtype)).unbind()
    x, y, out = x.contiguous(), y.contiguous(), torch.empty(n, dtype=x.dtype)
    assert add(x, y, out, n, 3.0) is None
    assert torch.equal(out, (x + y) * 3.0)


@pytest.mark.parametrize("name, function", [("exponential", torch.exp), ("sigmoid", torch.sigmoid),
                                            ("hyperbolic", torch.tanh)])  # fmt: skip
def test_functions_equal_eager_on_every_16_bit_value(name: str, function):
    kernel = cpp_kernel(ELEMENTWISE, f"{name}(const T* x, T* out, int64_t n)", ("float16", "bfloat16"))
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    for dtype in (torch.float16, torch.bfloat16):
        x = bits.view(dtype)
        out = torch.empty_like(x)
        kernel(x, out, x.numel())
        expected = function(x)
        assert torch.equal(out.isnan(), expected.isnan())
        assert torch.equal(out.nan_to_num(), expected.nan_to_num())


def test_erf_is_within_its_stated_error():
    kernel = cpp_kernel(ELEMENTWISE, "error(const T* x, T* out, int64_t n)", ("float32",))
    x = torch.linspace(-6, 6, 100_001)
    out = torch.empty_like(x)
    kernel(x, out, x.numel())
    assert (out - torch.erf(x.double())).abs().max() < 4e-7


def test_rounding_is_to_nearest_even_and_keeps_specials():
    kernel = cpp_kernel(
        "template <typename T> void narrow(const float* x, T* out, int64_t n) {\n"
        "  for (int64_t i = 0; i < n; ++i) out[i] = T(x[i]);\n}",
        "narrow(const float* x, T* out, int64_t n)",
        ("float16", "bfloat16"),
    )
    inf, nan = float("inf"), float("nan")
    x = torch.tensor(
        [
            1 + 2**-8,
            1 + 3 * 2**-8,
            1 + 2**-11,
            1 + 3 * 2**-11,
            65519.0,
            65520.0,
            -0.0,
            1e-40,
            6e-8,
            inf,
            -inf,
            nan,
        ]
    )
    for dtype in (torch.float16, torch.bfloat16):
        out = torch.empty(len(x), dtype=dtype)
        kernel(x, out, len(x))
        assert torch.equal(out[:-1].view(torch.int16), x[:-1].to(dtype).view(torch.int16))
        assert out[-1].isnan()


@pytest.mark.parametrize("n", [8, 9, 31, 33, 100, 768, 2048, 5000, 70_000])
def test_eager_sum_has_eagers_order(n: int):
    kernel = cpp_kernel(
        "void sums(const float* x, float* out, int64_t rows, int64_t n) {\n"
        "  for (int64_t r = 0; r < rows; ++r)\n"
        "    out[r] = pn::eager_sum(n, [&](int64_t i, int k) { return pn::load(x + r * n + i, k); });\n}",
        "sums(const float* x, float* out, int64_t rows, int64_t n)",
    )
    x, out = torch.randn(20, n), torch.empty(20)
    kernel(x, out, 20, n)
    assert torch.equal(out, x.sum(-1))


def test_views_lists_and_scalars():
    kernel = cpp_kernel(
        """
        void gather(pn::view<const float, 2> v, pn::list<const int64_t> lists, double* out, int k,
                    bool negate) {
          double total = 0;
          for (int64_t i = 0; i < v.sizes[0]; ++i)
            for (int64_t j = 0; j < v.sizes[1]; ++j)
              total += v.data[i * v.strides[0] + j * v.strides[1]] * (i + 1);
          for (int64_t l = 0; l < lists.count; ++l) total += k * lists[l][0];
          out[0] = negate ? -total : total;
        }""",
        "gather(view<const float, 2> v, list<const int64_t> lists, double* out, int k, bool negate)",
    )
    v = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t()[1:]  # rows (2, 5) and (3, 6), not contiguous
    out = torch.empty(1, dtype=torch.float64)
    kernel(v, [torch.tensor([10]), torch.tensor([20])], out, 2, True)
    assert out.item() == -((2 + 5) * 1 + (3 + 6) * 2 + 2 * 30)
    with pytest.raises(ValueError, match=r"argument 1 \(v\) has 1 dimensions, expected 2"):
        kernel(v[0], [], out, 1, False)
    with pytest.raises(TypeError, match=r"argument 2 \(lists\) has a tensor of float32, expected int64"):
        kernel(v, [torch.zeros(1)], out, 1, False)


def test_wrong_arguments_are_named(add):
    x, out = torch.zeros(4), torch.zeros(4)
    cases = [
        ((x, x, out, 4), TypeError, "add takes 5 arguments, got 4"),
        ((x, x.double(), out, 4, 1.0), TypeError, r"add: argument 2 \(y\) is float64, expected float32"),
        ((x.long(), x, out, 4, 1.0), TypeError, "is int64, expected one of float32, float16, bfloat16"),
        ((x, x, torch.zeros(4, 4)[:, 0], 4, 1.0), ValueError, r"not contiguous: shape \(4\), strides \(4\)"),
        ((x, 3, out, 4, 1.0), TypeError, r"argument 2 \(y\) is a int, expected a tensor"),
        ((x, x, out, 4.5, 1.0), TypeError, r"argument 4 \(n\) is a float, expected an int"),
        ((x, x, out, 4, "1"), TypeError, r"argument 5 \(scale\) is a str, expected a float"),
        ((x.to("meta"), x, out, 4, 1.0), ValueError, r"argument 1 \(x\) is not on the CPU"),
    ]
    for arguments, error, said in cases:
        with pytest.raises(error, match=said):
            add(*arguments)


def test_tensors_that_require_grad_and_parameters_are_read(add):
    x, out = torch.randn(8, requires_grad=True), torch.empty(8)
    add(x, torch.nn.Parameter(x.detach().clone()), out, 8, 1.0)
    assert torch.equal(out, x.detach() * 2)


def test_reading_by_methods_agrees_with_reading_through_dlpack(monkeypatch: pytest.MonkeyPatch):
    """torch before 2.10 has no DLPack C functions: the same kernel, loaded anew without them."""
    monkeypatch.delattr(torch.Tensor, "__dlpack_c_exchange_api__", raising=False)
    kernel = cpp_kernel(ADD, ADD_SIGNATURE, FLOATS)
    x, out = torch.randn(33).to(torch.bfloat16), torch.empty(33, dtype=torch.bfloat16)
    kernel(x, x, out, 33, 1.0)
    assert torch.equal(out, x + x)
    with pytest.raises(ValueError, match=r"argument 3 \(out\) is not contiguous"):
        kernel(x, x, torch.empty(2, 33, dtype=torch.bfloat16).t(), 33, 1.0)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("void f(const float* x) {\n  int y = ;\n}", "line 2: expected primary-expression"),
        ("void g() {}", "no function that fits the signature"),
        ("void f(int x) {}", "no function that fits the signature"),
        (
            "#include <torch/extension.h>\nvoid f(const float* x) {}",
            "line 1: torch/extension.h: No such file",
        ),
        ("void missing();\nvoid f(const float* x) {\n  undeclared(x);\n}", "line 3: "),
    ],
)
def test_compile_errors_carry_the_authors_line(source: str, said: str):
    with pytest.raises(KernelCompileError) as caught:
        cpp_kernel(source, "f(const float* x)").compile()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.log


def test_nothing_is_compiled_before_the_first_call():
    cpp_kernel("this is not C++", "f(const float* x)")


def _compile(barrier, results) -> None:
    barrier.wait()
    kernel = cpp_kernel(ADD.replace("add(", "race("), ADD_SIGNATURE.replace("add(", "race("), FLOATS)
    x, out = torch.ones(5), torch.empty(5)
    kernel(x, x, out, 5, 1.0)
    results.put(out.sum().item())


def test_racing_processes_share_one_cached_file():
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    workers = [context.Process(target=_compile, args=(barrier, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert [results.get(timeout=120) for _ in workers] == [10.0] * 3
    for worker in workers:
        worker.join()
    files = [path.name for path in Path(os.environ["PASSNET_KERNEL_CACHE"]).iterdir()]
    assert sum(name.startswith("race-") for name in files) == 1
    assert not [name for name in files if name.startswith(".build-")]


FORKED = r"""
import os, torch
from pass_bench.kernels import cpp_kernel
kernel = cpp_kernel(
    "void threads(int64_t* out, int64_t n) {\n"
    "  pn::parallel_for(n, 1, [&](int64_t b, int64_t e) {\n"
    "    for (int64_t i = b; i < e; ++i) out[i] = omp_get_num_threads();\n"
    "  });\n"
    "}", "threads(int64_t* out, int64_t n)")
for wanted in (1, 2):  # forked before any parallel region, as a child of the zygote is
    child = os.fork()
    if child == 0:
        torch.set_num_threads(wanted)
        out = torch.zeros(8, dtype=torch.int64)
        kernel(out, 8)
        small = torch.zeros(1, dtype=torch.int64)
        kernel(small, 1)  # one item: no parallel region
        print(wanted, sorted(set(out.tolist())), small.tolist(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_threads_follow_torch_in_a_forked_child():
    ran = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.splitlines() == ["1 [1] [1]", "2 [2] [1]"]
