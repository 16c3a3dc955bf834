"""The tolerance of every level t, per dtype. No torch: dtypes are names."""

from __future__ import annotations

BASELINE_T = -5
LEVELS = range(-10, 6)

# atol = 10^t and rtol = 10^(k t); chosen so that t = -5 is PyTorch's own default for each dtype.
_RTOL_EXPONENT = {"float16": 0.6, "bfloat16": 0.3592, "float32": 1.1772}
_FLOAT64_EXPONENT = 1.4
TOLERANT_DTYPES = ("float16", "bfloat16", "float32", "float64")


def atol_rtol(dtype: str, t: int, rounded: bool = False) -> tuple[float, float]:
    """Absolute and relative tolerance of a dtype ("float32") at level t.

    Every dtype without a tolerance must be equal: (0.0, 0.0). `rounded` keeps three significant digits, as
    the keys of reference logs do. The relative one scales with the expected value.
    """
    if dtype == "float64":
        atol = rtol = 10.0 ** (_FLOAT64_EXPONENT * t)
    elif dtype in _RTOL_EXPONENT:
        atol, rtol = 10.0**t, 10.0 ** (_RTOL_EXPONENT[dtype] * t)
    else:
        return 0.0, 0.0
    return (float(f"{atol:.2E}"), float(f"{rtol:.2E}")) if rounded else (atol, rtol)


def tolerance_key(dtype: str, t: int) -> str:
    """The name of a level in reference logs: `all_close_atol_1.00E-05_rtol_1.30E-06`."""
    atol, rtol = atol_rtol(dtype, t)
    return f"all_close_atol_{atol:.2E}_rtol_{rtol:.2E}"
