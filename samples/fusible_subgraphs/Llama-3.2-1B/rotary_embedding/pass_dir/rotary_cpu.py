"""C++: queries and keys in one call; every element is read once and written once."""

import torch
from pass_dir._pattern import pattern, replacement_args

from pass_bench.kernels import cpp_kernel

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cpu",)

_kernel = cpp_kernel(
    r"""
// Rows of x: (batch, heads, length) vectors of `size`; cos and sin: (1 or batch, length) such vectors.
template <typename T>
static void rotate(const T* x, const T* cos, const T* sin, T* out, int64_t batch, int64_t heads,
                   int64_t length, int64_t size, int64_t table_batch) {
  const int64_t rows = batch * heads * length, half = size / 2;
  pn::parallel_for(rows, 1 + 32768 / size, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t sample = table_batch == 1 ? 0 : row / (heads * length);
      const int64_t at = (sample * length + row % length) * size;
      const T *v = x + row * size, *c = cos + at, *s = sin + at;
      T* y = out + row * size;
      pn::each(half, [&](int64_t i, int n) {
        const pn::vec low = pn::load(v + i, n), high = pn::load(v + half + i, n);
        // Both products are rounded to T before they are added, as eager stores them.
        const pn::vec first = pn::round<T>(-high * pn::load(s + i, n));
        const pn::vec second = pn::round<T>(low * pn::load(s + half + i, n));
        pn::store(y + i, pn::round<T>(low * pn::load(c + i, n)) + first, n);
        pn::store(y + half + i, pn::round<T>(high * pn::load(c + half + i, n)) + second, n);
      });
    }
  });
}

template <typename T>
void rotary(const T* cos, const T* sin, const T* query, const T* key, T* query_out, T* key_out,
            int64_t batch, int64_t query_heads, int64_t key_heads, int64_t length, int64_t size,
            int64_t table_batch) {
  rotate(query, cos, sin, query_out, batch, query_heads, length, size, table_batch);
  rotate(key, cos, sin, key_out, batch, key_heads, length, size, table_batch);
}
""",
    "rotary(const T* cos, const T* sin, const T* query, const T* key, T* query_out, T* key_out, "
    "int64_t batch, int64_t query_heads, int64_t key_heads, int64_t length, int64_t size, "
    "int64_t table_batch)",
    dtypes=("float32", "float16", "bfloat16"),
)


@torch.fx.wrap
def rotary(cos, sin, query, key):
    query_out = torch.empty_like(query)
    key_out = torch.empty_like(key)
    batch, heads, length, size = query.shape
    _kernel(cos, sin, query, key, query_out, key_out, batch, heads, key.shape[1], length, size, cos.shape[0])
    return query_out, key_out


def replacement_func():
    return rotary
