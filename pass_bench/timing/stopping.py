"""When to stop taking trials; numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pass_bench.results.records import Comparison
from pass_bench.timing.stats import LEVEL, TARGET_WIDTH, compare, rank_width

SURELY = 2.0


@dataclass(frozen=True)
class StoppingRule:
    """Trials double from `first` until the interval is narrower than 2 %, at most up to `cap` of them.

    Looking at the width several times and stopping at a narrow one favours samples that are narrow by
    chance, so the coverage of the last interval would drop below its name. Every look after the first costs
    half of the error of one look more, so each interval is taken at 1 - (1 - LEVEL) / (1 + (looks - 1) / 2);
    the simulation in the tests holds that to 95 %.
    """

    first: int = 100
    cap: int = 1600
    in_turns: bool = True

    @property
    def looks(self) -> int:
        count, trials = 1, self.first
        while trials < self.cap:
            count, trials = count + 1, min(trials * 2, self.cap)
        return count

    @property
    def level(self) -> float:
        return 1 - (1 - LEVEL) / (1 + (self.looks - 1) / 2)

    def next_block(self, taken: int) -> int:
        """Return how many more trials to take after `taken`; 0 at the cap."""
        if taken == 0:
            return self.first
        return max(0, min(taken, self.cap - taken))

    def surely_noisy(self, eager: Sequence[int], compiled: Sequence[int]) -> bool:
        """Whether the interval is so much wider than the target that it need not be computed to know that.

        The ranks that bound a median of independent trials give a width; dependent ones have a wider one.
        """
        return rank_width(eager, compiled) > SURELY * TARGET_WIDTH

    def judge(self, eager: Sequence[int], compiled: Sequence[int], seed: int = 0) -> Comparison:
        """Summarise what was taken so far, at this rule's level; done when it is not `noisy`."""
        return compare(eager, compiled, seed=seed, level=self.level, in_turns=self.in_turns)
