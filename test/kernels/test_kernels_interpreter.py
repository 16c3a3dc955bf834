"""Triton's interpreter, corrected: bfloat16 rounds as eager rounds; what needs a GPU says so.

The interpreter must be chosen before triton is imported, so the checks run in a process of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

from pass_bench.kernels import interpreter
from pass_bench.kernels.errors import UnsupportedOnCpu

PROBE = Path(__file__).parent / "interpreter_probe.py"


@pytest.fixture(scope="module")
def probed() -> dict[str, dict[str, object]]:
    ran = subprocess.run(
        [sys.executable, str(PROBE)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_operations_equal_eager_bit_for_bit(probed, dtype: str):
    results = probed[dtype]
    assert len(results) == 14
    assert {name for name, equal in results.items() if not equal} == set()


def test_conversions_round_to_nearest_even(probed):
    assert probed["conversions"] == {"bfloat16": True, "float16": True, "from int": True, "to int": True}


def test_autotune_takes_its_first_configuration(probed):
    assert probed["autotune"] == {"BLOCK": 8}


def test_what_needs_a_gpu_says_so(probed):
    reasons = probed["unsupported"]
    assert reasons["libdevice"] == "libdevice.tanh needs an NVIDIA GPU"
    assert reasons["inline assembly"].startswith("Triton's interpreter: inline_asm not supported")
    assert reasons["a mistake"] is None


def test_reason_looks_through_causes():
    try:
        try:
            raise UnsupportedOnCpu("needs a GPU")
        except UnsupportedOnCpu as inner:
            raise RuntimeError("wrapped") from inner
    except RuntimeError as error:
        assert interpreter.unsupported_reason(error) == "needs a GPU"
    assert interpreter.unsupported_reason(NotImplementedError("something else")) is None


def test_too_late_is_an_error():
    code = "import triton\nfrom pass_bench.kernels.interpreter import set_interpreted\nset_interpreted()"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROBE.parents[2])}
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert "triton was imported before TRITON_INTERPRET was set" in ran.stderr
