"""Do the results that a submission claims hold, measured again?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pass_bench.results.records import GraphResult
from pass_bench.results.verdict import Verdict
from pass_bench.score.es import geometric_mean

DRIFT = 0.02  # two honest runs of one machine differ by as much beyond their intervals
WORSE_SHARE = 0.05

Finding = Literal["holds", "faster", "slower", "verdict", "not timed", "left out"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One claimed result and the one measured now."""

    claimed: GraphResult
    measured: GraphResult

    @property
    def left_out(self) -> bool:
        """Whether the measurement says nothing: it failed for our reasons, or a CPU cannot repeat a GPU's."""
        if self.measured.verdict is Verdict.INFRA:
            return True
        other_device = self.claimed.device != self.measured.device
        return self.measured.verdict is Verdict.UNSUPPORTED_ON_CPU and other_device

    @property
    def better_than_found(self) -> bool:
        """Whether a graph that is claimed to be correct was measured and is not."""
        correct = Verdict.CORRECT
        return self.claimed.verdict is correct and self.measured.verdict is not correct and not self.left_out

    @property
    def finding(self) -> Finding:
        """What was found; "slower": the new interval lies below the claimed one by more than DRIFT."""
        if self.left_out:
            return "left out"
        if self.claimed.verdict is not self.measured.verdict:
            return "verdict"
        before, now = self.claimed.e2e, self.measured.e2e
        if before is None or now is None or self.claimed.interpreted:
            return "not timed"
        if now.high < before.low * (1 - DRIFT):
            return "slower"
        if now.low > before.high * (1 + DRIFT):
            return "faster"
        return "holds"

    @property
    def ratio(self) -> float | None:
        """Measured over claimed speedup."""
        if self.claimed.e2e is None or self.measured.e2e is None or self.claimed.interpreted:
            return None
        return self.measured.e2e.speedup / self.claimed.e2e.speedup


def choose(results: Sequence[GraphResult], share: float, seed: int) -> list[GraphResult]:
    """Return a random part of the claims that count, at least one."""
    counted = [result for result in results if result.verdict.scored]
    count = min(len(counted), max(1, round(share * len(counted))))
    return random.Random(seed).sample(counted, count)


def hold(claims: Sequence[Claim]) -> bool:
    """Whether no claimed verdict was better than what was found, and at most 5 % of the speeds are slower.

    What was left out counts neither way.
    """
    if any(claim.better_than_found for claim in claims):
        return False
    timed = [claim for claim in claims if claim.ratio is not None and not claim.left_out]
    slower = sum(claim.finding == "slower" for claim in timed)
    return slower <= WORSE_SHARE * len(timed)


def mean_ratio(claims: Sequence[Claim]) -> float | None:
    """Geometric mean of measured over claimed speedups."""
    ratios = [claim.ratio for claim in claims if claim.ratio is not None]
    return geometric_mean(ratios) if ratios else None
