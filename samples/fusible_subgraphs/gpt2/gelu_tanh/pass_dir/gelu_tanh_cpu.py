"""C++: eight operators in one loop, each result rounded to the graph's dtype as eager stores it."""

import torch
from pass_dir._pattern import pattern, replacement_args

from pass_bench.kernels import cpp_kernel

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cpu",)

_kernel = cpp_kernel(
    r"""
#include <type_traits>

template <typename T> void gelu_tanh(const T* x, T* out, int64_t count) {
  pn::parallel_for(count, 16384, [&](int64_t begin, int64_t end) {
    pn::each(end - begin, [&](int64_t i, int n) {
      const pn::vec v = pn::load(x + begin + i, n);
      const pn::vec half = pn::round<T>(v * 0.5f);
      // Eager's pow(x, 3) is x * x * x, in bfloat16 for bfloat16, in float for float16.
      const pn::vec square = std::is_same<T, pn::bf16>::value ? pn::round<T>(v * v) : v * v;
      const pn::vec cube = pn::round<T>(square * v);
      const pn::vec inner = pn::round<T>(v + pn::round<T>(cube * 0.044715f));
      const pn::vec bent = pn::round<T>(pn::tanh(pn::round<T>(inner * 0.7978845608028654f)));
      pn::store(out + begin + i, half * pn::round<T>(bent + 1.0f), n);
    });
  });
}
""",
    "gelu_tanh(const T* x, T* out, int64_t count)",
    dtypes=("float32", "float16", "bfloat16"),
)


@torch.fx.wrap
def gelu_tanh(x):
    out = torch.empty_like(x)
    _kernel(x, out, x.numel())
    return out


def replacement_func():
    return gelu_tanh
