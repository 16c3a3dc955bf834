"""C++: one sigmoid per plane, rounded as eager stores it, then one loop over the plane."""

import torch
from pass_dir._pattern import pattern, replacement_args

from pass_bench.kernels import cpp_kernel

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cpu",)

_kernel = cpp_kernel(
    r"""
template <typename T>
void squeeze_excite_scale(const T* gate, const T* x, T* out, int64_t planes, int64_t size) {
  pn::parallel_for(planes, 1 + 32768 / size, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float scale = pn::round<T>(pn::sigmoid(pn::splat(gate[plane])))[0];
      const T* a = x + plane * size;
      T* y = out + plane * size;
      pn::each(size, [&](int64_t i, int n) { pn::store(y + i, pn::load(a + i, n) * scale, n); });
    }
  });
}
""",
    "squeeze_excite_scale(const T* gate, const T* x, T* out, int64_t planes, int64_t size)",
    dtypes=("float32", "float16", "bfloat16"),
)


@torch.fx.wrap
def squeeze_excite_scale(gate, x):
    out = torch.empty_like(x)
    planes = gate.numel()
    _kernel(gate, x, out, planes, x.numel() // planes)
    return out


def replacement_func():
    return squeeze_excite_scale
