"""Reading kernel signatures."""

from __future__ import annotations

import pytest

from pass_bench.kernels.errors import KernelSignatureError
from pass_bench.kernels.signature import Parameter, check_dtypes, parse_signature


def test_every_kind_of_parameter():
    signature = parse_signature(
        "void f(const T* x, float* out, view<const half, 4> v, list<T> xs, int64_t n, int k, double e, "
        "float s, bool b)"
    )
    assert signature.name == "f"
    assert signature.generic
    assert signature.parameters == (
        Parameter("x", "pointer", "T", True),
        Parameter("out", "pointer", "float", False),
        Parameter("v", "view", "half", True, 4),
        Parameter("xs", "list", "T", False),
        Parameter("n", "int64"),
        Parameter("k", "int32"),
        Parameter("e", "float64"),
        Parameter("s", "float32"),
        Parameter("b", "bool"),
    )


def test_spellings_that_mean_the_same():
    assert parse_signature("f(const pn::half *x , std::int64_t n);") == parse_signature(
        "f(const half* x, int64_t n)"
    )
    assert parse_signature("f(const T* __restrict__ x)") == parse_signature("f(const T* x)")
    assert parse_signature("f()").parameters == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f", "cannot be read"),
        ("f(at::Tensor x)", "'at::Tensor x' cannot be read"),
        ("f(const T* x, quaternion* y)", "unknown element type 'quaternion'"),
        ("f(const T** xs)", "cannot be read"),
        ("f(int64_t n, int64_t n)", "two parameters called 'n'"),
        ("f(size_t n)", "cannot be read"),
    ],
)
def test_bad_signatures_name_the_parameter(text: str, said: str):
    with pytest.raises(KernelSignatureError, match="f") as caught:
        parse_signature(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "dtypes", "said"),
    [
        ("f(const T* x)", (), "uses T but no dtypes"),
        ("f(const float* x)", ("float32",), "no tensor of type T"),
        ("f(const T* x)", ("complex64",), "unknown dtype 'complex64'"),
        ("f(list<const T> xs, const T* x)", ("float32",), "single T tensor before a list"),
    ],
)
def test_dtypes_go_with_the_template_parameter(text: str, dtypes: tuple[str, ...], said: str):
    with pytest.raises(KernelSignatureError, match="f") as caught:
        check_dtypes(parse_signature(text), dtypes)
    assert said in str(caught.value)
