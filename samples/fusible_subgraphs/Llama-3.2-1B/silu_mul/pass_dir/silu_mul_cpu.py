"""C++: one loop; silu is rounded to the graph's dtype before it is multiplied, as eager stores it."""

import torch
from pass_dir._pattern import pattern, replacement_args

from pass_bench.kernels import cpp_kernel

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cpu",)

_kernel = cpp_kernel(
    r"""
template <typename T> void silu_mul(const T* gate, const T* up, T* out, int64_t count) {
  pn::parallel_for(count, 32768, [&](int64_t begin, int64_t end) {
    pn::each(end - begin, [&](int64_t i, int n) {
      const pn::vec g = pn::load(gate + begin + i, n);
      const pn::vec active = pn::round<T>(g / (1.0f + pn::exp(-g)));
      pn::store(out + begin + i, active * pn::load(up + begin + i, n), n);
    });
  });
}
""",
    "silu_mul(const T* gate, const T* up, T* out, int64_t count)",
    dtypes=("float32", "float16", "bfloat16"),
)


@torch.fx.wrap
def silu_mul(gate, up):
    out = torch.empty_like(gate)
    _kernel(gate, up, out, gate.numel())
    return out


def replacement_func():
    return silu_mul
