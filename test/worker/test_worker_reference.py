"""What the reference says of values: not finite, also where their sum overflows or cancels."""

from __future__ import annotations

import pytest
import torch

from pass_bench.worker.reference import not_finite

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_one_odd_element_makes_a_tensor_not_finite(dtype: torch.dtype) -> None:
    for odd in ([NAN], [INF], [-INF], [INF, -INF]):
        assert not_finite(torch.tensor([1.0, *odd, 2.0]).to(dtype))
    assert not not_finite(torch.tensor([1.0, -2.0]).to(dtype)) and not not_finite(torch.empty(0).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_sum_that_overflows_says_nothing(dtype: torch.dtype) -> None:
    assert not not_finite(torch.full((4,), torch.finfo(dtype).max, dtype=dtype))


def test_what_is_no_tensor_of_floats() -> None:
    assert not_finite(NAN) and not_finite(-INF) and not not_finite(1.5)
    assert not not_finite(torch.tensor([1, 2])) and not not_finite(None)
