"""Comparison of outputs: tolerances, shapes, dtypes, NaN, worst element."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pass_bench.verify.compare import Compared, compare_outputs, compare_tensors, same_bits, tolerance
from pass_bench.verify.float64 import run_in_float64
from pass_bench.verify.weak import weak_at, weaker


def test_equal_tensors_pass_from_the_tightest_level() -> None:
    report = compare_tensors(torch.ones(3), torch.ones(3))
    assert (report.passes_from, report.max_diff, report.worst) == (-10, 0.0, None)


@pytest.mark.parametrize(
    ("dtype", "difference", "level"),
    [
        # |expected| = 1, so the tolerance is 10^t + 10^(k t), k = 1.1772, 0.6, 0.3592.
        (torch.float32, 2.0**-17, -5),  # 7.6e-6 <= 1.13e-5, > 1e-6 + 8.6e-8
        (torch.float32, 2.0**-13, -3),  # 1.2e-4 <= 1.29e-3, > 1e-4 + 2e-5
        (torch.float16, 2.0**-10, -5),  # 9.8e-4 <= 1.01e-3, > 2.5e-4
        (torch.bfloat16, 2.0**-7, -5),  # 7.8e-3 <= 1.6e-2, > 7.0e-3
        (torch.float64, 2.0**-30, -6),  # 9.3e-10 <= 2 * 10^-8.4, > 2 * 10^-9.8
    ],
)
def test_the_level_of_a_known_difference(dtype: torch.dtype, difference: float, level: int) -> None:
    expected = torch.ones(4, dtype=dtype)
    actual = expected.clone()
    actual[2] += difference
    report = compare_tensors(actual, expected)
    assert report.passes_from == level
    assert report.max_diff == difference
    assert report.mean_diff == difference / 4
    assert report.worst is not None and report.worst.index == (2,)


def test_tolerance_scales_with_the_expected_value_and_with_the_actual_one_under_compat() -> None:
    expected, actual = torch.tensor([100.0]), torch.tensor([150.0])
    # t = 0: atol 1, rtol 1: 50 <= 1 + 100 and <= 1 + 150; t = -1: rtol 0.0665: 50 > 6.7, 50 > 10
    assert compare_tensors(actual, expected).passes_from == 0
    small = torch.tensor([0.0])
    assert compare_tensors(torch.tensor([8.0]), small).passes_from == 1  # 8 <= 10
    assert compare_tensors(torch.tensor([8.0]), small, compat=True).passes_from == 0  # 8 <= 1 + 8


def test_nan_and_inf_pass_where_eager_has_the_same() -> None:
    expected = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    report = compare_tensors(expected.clone(), expected)
    assert (report.passes_from, report.nonfinite) == (-10, False)
    assert compare_tensors(expected.clone(), expected, compat=True).passes_from is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([math.nan], [1.0]),
        ([1.0], [math.nan]),
        ([math.inf], [-math.inf]),
        ([math.inf], [3.4e38]),
        ([0.0], [math.inf]),
    ],
)
def test_nan_or_inf_in_one_only_never_passes(actual: list[float], expected: list[float]) -> None:
    report = compare_tensors(torch.tensor(actual), torch.tensor(expected))
    assert (report.passes_from, report.nonfinite) == (None, True)
    assert report.worst is not None and report.worst.index == (0,)


def test_integers_and_bools_are_exact_beyond_the_digits_of_a_float64() -> None:
    expected = torch.tensor([2**62, 5])
    assert compare_tensors(expected.clone(), expected).passes_from == -10
    assert compare_tensors(expected + torch.tensor([1, 0]), expected).passes_from is None
    flags = torch.tensor([True, False])
    assert compare_tensors(~flags, flags).passes_from is None


def test_the_worst_element_is_the_one_furthest_outside_its_tolerance() -> None:
    expected = torch.tensor([[1000.0, 1.0], [0.0, 0.0]])
    actual = torch.tensor([[1000.1, 1.0], [0.01, 0.0]])
    report = compare_tensors(actual, expected)
    assert report.worst is not None
    assert report.worst.index == (1, 0)  # off by 0.01 where 1e-5 is allowed; 0.1 of 1.3e-3 is closer
    assert (report.worst.expected, report.worst.tolerance) == (0.0, pytest.approx(1e-5))


def test_shape_comes_before_broadcasting_and_dtype_before_promotion() -> None:
    one = compare_outputs([torch.ones(1, 3)], [torch.ones(3)], ["output[0]"])
    assert (one.mismatch, one.passes_from) == ("shape", None)
    assert one.reason == "output[0]: shape [1, 3], eager has [3]"
    two = compare_outputs([torch.ones(3)], [torch.ones(3).half()], ["output[0]"])
    assert (two.mismatch, two.reason) == ("type", "output[0]: dtype float32, eager has float16")


def test_plain_values_and_counts() -> None:
    names = ["output[0]", "output[1]", "output[2]"]
    assert compare_outputs([1, None, math.nan], [1, None, math.nan], names).passes_from == -10
    assert compare_outputs([1, None, 2.0], [2, None, 2.0], names).passes_from is None
    assert compare_outputs([True, None, 2.0], [1, None, 2.0], names).mismatch == "type"
    assert compare_outputs([1], [1, 2], names).reason == "1 outputs, eager has 2"


def test_no_outputs_pass() -> None:
    assert compare_outputs([], [], []).passes_from == -10


def test_empty_zero_dim_complex_and_float8() -> None:
    for value in (
        torch.empty(0, 3),
        torch.tensor(2.5),
        torch.tensor([1 + 2j]),
        torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
    ):
        assert compare_tensors(value.clone(), value).passes_from == -10
    assert compare_tensors(torch.tensor([1 + 2j]), torch.tensor([1 + 3j])).passes_from is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=20),
    st.floats(-(2.0**-7), 2.0**-7, width=32),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_agrees_with_allclose_in_float64(values: list[float], shift: float, dtype: torch.dtype) -> None:
    expected = torch.tensor(values, dtype=dtype)
    actual = expected + shift
    passes_from = compare_tensors(actual, expected).passes_from
    for t in range(-10, 6):
        atol, rtol = tolerance(dtype, t)
        close = torch.allclose(actual.double(), expected.double(), rtol=rtol, atol=atol)
        assert close == (passes_from is not None and passes_from <= t)


def test_same_bits_knows_nan_and_signed_zero() -> None:
    assert same_bits(torch.tensor([math.nan]), torch.tensor([math.nan]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert same_bits(torch.ones(4, 3).t(), torch.ones(3, 4))


def test_weak_at_of_zeros_mean_and_pass_through() -> None:
    x = torch.linspace(1, 2, 11)
    assert weak_at([torch.full((4,), 3.0)], [x]) == -10  # the mean is exact
    assert weak_at([x + 2.0**-17], [x]) == -5  # the input itself is right to 1e-5
    assert weak_at([torch.zeros(4)], []) == -10
    assert weak_at([torch.tensor([0, 5])], []) is None  # integers are exact
    assert weak_at([torch.tensor([0.0, 5e8])], []) == 0  # zeros pass from t = 0 on, whatever the values
    assert weak_at([x, torch.zeros(2)], []) == 0  # the harder of two outputs counts; the mean is 0.5 off
    assert weaker(-10, 0) == 0 and weaker(None, -10) is None


def test_float64_run_widens_inputs_casts_and_constants() -> None:
    def graph(x: torch.Tensor) -> torch.Tensor:
        return (x.half() * torch.tensor(0.1, dtype=torch.float16)).float() + torch.zeros(
            1, dtype=torch.float32
        )

    result = run_in_float64(graph, [torch.tensor([0.1], dtype=torch.float16)])
    assert result is not None and result.dtype == torch.float64
    assert float(result) == float(torch.tensor(0.1, dtype=torch.float16).double()) * 0.1


def test_float64_run_gives_up_quietly_where_it_cannot() -> None:
    assert run_in_float64(lambda x: x @ torch.ones(2, 3), [torch.ones(2, 2, 5)]) is None


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("actual", "expected", "passes"),
    [
        ([1.0, 2.0], [1.0, 2.0], True),
        ([1.00001], [1.0], True),  # 1e-5 off; allowed are 1e-5 + 1.3e-6
        ([1.00002], [1.0], False),
        ([NAN], [1.0], False),
        ([1.0], [NAN], False),
        ([1.0], [INF], False),
        ([INF], [1.0], False),
        ([], [], True),
    ],
)
def test_what_is_enough_is_found_as_the_full_comparison_finds_it(
    actual: list[float], expected: list[float], passes: bool
) -> None:
    one, other = torch.tensor(actual), torch.tensor(expected)
    quick = compare_outputs([one], [other], ["out"], enough=-5)
    full = compare_outputs([one], [other], ["out"])
    assert (full.passes_from is not None and full.passes_from <= -5) is passes
    assert repr(quick) == repr(Compared((), -5) if passes else full)  # NaN is not equal to itself


def test_equal_nan_and_inf_shapes_types_and_numbers_are_left_to_the_full_comparison() -> None:
    same = torch.tensor([NAN, INF])
    assert compare_outputs([same], [same.clone()], ["out"], enough=-5).passes_from == -10
    for other in (torch.zeros(3), torch.zeros(2, dtype=torch.float64), 1.0, None):
        assert compare_outputs([other], [torch.zeros(2)], ["out"], enough=-5).mismatch
    assert compare_outputs([1], [1], ["out"], enough=-5).passes_from == -10
    assert compare_outputs([], [torch.zeros(2)], ["out"], enough=-5).mismatch == "type"


def test_integers_are_enough_only_if_equal_and_every_output_counts() -> None:
    ones, twos = torch.ones(3, dtype=torch.int64), torch.full((3,), 2)
    assert compare_outputs([ones], [ones.clone()], ["a"], enough=1) == Compared((), 1)
    result = compare_outputs([ones, twos], [ones, ones], ["a", "b"], enough=1)
    assert result.passes_from is None and len(result.reports) == 2


def test_compat_is_never_cut_short() -> None:
    ones = torch.ones(3)
    assert len(compare_outputs([ones], [ones.clone()], ["a"], enough=1, compat=True).reports) == 1
