"""What can become of one graph."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The outcome of evaluating one graph.

    `CORRECT` means right at the dtype's baseline tolerance (t = -5) under every scored regime.
    `ACCURACY` may still be right at a looser t: see `GraphResult.passes_from`.
    """

    CORRECT = "correct"
    ACCURACY = "accuracy"
    SHAPE_MISMATCH = "shape_mismatch"
    TYPE_MISMATCH = "type_mismatch"
    RUNTIME_FAIL = "runtime_fail"
    COMPILE_FAIL = "compile_fail"
    PASS_MISS = "pass_miss"
    REJECTED = "rejected"
    EAGER_FAIL = "eager_fail"
    TIMEOUT = "timeout"
    NOTHING_TO_CHECK = "nothing_to_check"
    UNSUPPORTED_ON_CPU = "unsupported_on_cpu"
    INFRA = "infra"

    @property
    def scored(self) -> bool:
        """Whether the graph enters the geometric mean."""
        return self not in UNSCORED

    @property
    def ran(self) -> bool:
        """Whether the compiled graph produced outputs of the right shapes and dtypes."""
        return self in (Verdict.CORRECT, Verdict.ACCURACY)


UNSCORED = frozenset({Verdict.NOTHING_TO_CHECK, Verdict.UNSUPPORTED_ON_CPU, Verdict.INFRA})
