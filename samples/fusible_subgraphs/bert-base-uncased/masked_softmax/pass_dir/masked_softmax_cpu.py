"""C++: one read of the scores; a row's exponentials stay in a small buffer."""

import torch
from pass_dir._pattern import SCALE, pattern, replacement_args

from pass_bench.kernels import cpp_kernel

__all__ = ["DEVICES", "pattern", "replacement_args", "replacement_func"]

DEVICES = ("cpu",)

_kernel = cpp_kernel(
    r"""
#include <vector>

// scores: (batch, heads, queries, cols); mask: (mask_batch, 1, queries, cols) with mask_batch 1 or batch
template <typename T>
void masked_softmax(const T* scores, const T* mask, T* out, int64_t batch, int64_t heads, int64_t queries,
                    int64_t cols, int64_t mask_batch, double scale) {
  const float factor = static_cast<float>(scale);
  const int64_t rows = batch * heads * queries;
  pn::parallel_for(rows, 1 + 16384 / cols, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(cols + pn::W);
    float* e = buffer.data();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t sample = mask_batch == 1 ? 0 : row / (heads * queries);
      const T *s = scores + row * cols, *m = mask + (sample * queries + row % queries) * cols;
      T* y = out + row * cols;
      pn::vec highest = pn::splat(-__builtin_inff());
      pn::each(cols, [&](int64_t i, int n) {
        // Product and sum are rounded to T one after the other, as eager stores them.
        const pn::vec scaled = pn::round<T>(pn::load(s + i, n) * factor);
        pn::vec masked = pn::round<T>(scaled + pn::load(m + i, n));
        for (int k = n; k < pn::W; ++k) masked[k] = -__builtin_inff();
        pn::store(e + i, masked);
        highest = pn::max(highest, masked);
      });
      const float top = pn::max(highest);
      pn::vec sums{};
      pn::each(cols, [&](int64_t i, int n) {
        const pn::vec power = pn::exp(pn::load(e + i) - top);
        pn::store(e + i, power);
        sums += pn::head(power, n);
      });
      const float total = pn::sum(sums);
      pn::each(cols, [&](int64_t i, int n) { pn::store(y + i, pn::load(e + i) / total, n); });
    }
  });
}
""",
    "masked_softmax(const T* scores, const T* mask, T* out, int64_t batch, int64_t heads, int64_t queries, "
    "int64_t cols, int64_t mask_batch, double scale)",
    dtypes=("float32", "float16", "bfloat16"),
)


@torch.fx.wrap
def masked_softmax(scores, mask):
    out = torch.empty_like(scores)
    batch, heads, queries, cols = scores.shape
    _kernel(scores, mask, out, batch, heads, queries, cols, mask.shape[0], SCALE)
    return out


def replacement_func():
    return masked_softmax
