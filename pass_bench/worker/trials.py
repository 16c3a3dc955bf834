"""Asks a candidate for blocks of trials until the interval is narrow; no torch."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median

from pass_bench.guard.clock_fit import LEAST_ROUNDS as TELLING_ROUNDS
from pass_bench.guard.clock_fit import Block, Misfit
from pass_bench.results.records import Comparison, EvalSettings
from pass_bench.timing.stats import timing_stats
from pass_bench.timing.stopping import StoppingRule
from pass_bench.timing.throttle import ClockWatch, Source
from pass_bench.worker.conversation import Timed, close
from pass_bench.worker.messages import Arm, Audit, TimeRequest
from pass_bench.worker.outcome import rejected

CAP_FACTOR = 32  # at most this many times the trials asked for
# More than the trials asked for (on the CPU: 8 times as many, since a core is never quiet) are taken only as
# long as all of them are expected to take no more than LONG_S: meanwhile other graphs stand still.
SURE_FACTOR = {"cpu": 8, "cuda": 1}
LONG_S = {"cpu": 0.36, "cuda": 0.27}
DEVICE_S = 0.1  # for trials of device time, which vary little
LEAST_MORE = 0.1  # fewer new trials, as a share of those taken, are not worth a look at the interval
MOST_RETAKEN = 3  # blocks during which the device lowered its clock
MOST_MISFITS = 10  # more blocks than have fitted
MOST_TAKES = 40
RETAKEN_S, LATE_MISFITS = 20.0, 4  # after so long fewer are enough
MISFIT_PAUSE_S = 0.01  # after the first misfit; after the n-th n^2 times as long, since some noise lasts
SHORT_RETAKES, MOST_ROUNDS = 1, 1000  # after so many misfits blocks double, up to so many rounds
# Warm-up after the wait for the device, in which others ran on the same core and the same card.
RETURN_ROUNDS, RETURN_S = 3, 0.005  # at least so many rounds, and for so long
LEAST_ROUNDS = 3
PARTS = 3
AGAIN_S = 2.0
CONTENTS = 4  # of the inputs, beside the usual one
BLOCK_S = 0.02  # shorter blocks than this cost less than what guards do beside each one


class Trials:
    """All timing of one graph; `ask` sends a request and returns the answer and what our own clock says.

    `hold` holds the device, and is entered anew for each block. Where there is a `between`, trials come in
    blocks of secret length, and it runs between them; `beside` looks at each block, in the same hold.
    """

    def __init__(
        self,
        ask: Callable[[TimeRequest], Timed],
        settings: EvalSettings,
        device: str,
        mutated: tuple[int, ...],
        unrewritten: bool,
        between: Callable[[Trials], None] | None = None,
        beside: Callable[[Block], Misfit | None] | None = None,
        clock: Source | None = None,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
        keep: int = 1,
    ):
        self._ask = ask
        self._settings = settings
        self._device = device
        self._mutated = mutated
        self._arms: tuple[Arm, ...] = ("eager", "compiled")
        if unrewritten and not settings.compat:
            self._arms = ("eager", "compiled", "unrewritten")
        self._beside = beside
        self._hold = hold
        self._clock = ClockWatch(clock)
        self._retaken = 0
        self._between, self._keep = between, keep
        self._end = 0.0
        self._empty_ns = self._empty_ran_ns = sys.maxsize  # the least so far
        self.blocks: list[Block] = []
        self.watch: tuple[int, ...] = ()  # seeds of the last block, some calls of which can be looked at
        self.kept = 0  # how many
        self.e2e: Comparison | None = None
        self.device_time: Comparison | None = None
        self.unrewritten: Comparison | None = None
        self.warnings: list[str] = []
        self.spent_s = 0.0
        self._host_times: list[list[int]] = []
        self._device_times: list[tuple[int, ...]] = []

    def warm(self) -> None:
        """Run the warm-up, for which the device is not held: libraries load and kernels compile there."""
        self._end = time.monotonic() + self._settings.time_budget_s * self._host_share
        self._timed(0, self._settings.warmup, "host", self._arms)

    def run(self) -> None:
        """Take the trials: host time with its stopping rule, then device time where there is a device."""
        self._end = time.monotonic() + self._settings.time_budget_s * self._host_share
        self._host()
        taken = len(self._host_times[0])
        if taken < self._settings.trials:
            self.warnings.append(f"{taken} of {self._settings.trials} trials: the time budget was spent")
        if self._device == "cuda":
            self._end = time.monotonic() + min(self._settings.time_budget_s / 4, DEVICE_S)
            with self._held():
                self._device_times = self._block(
                    self._settings.trials, "device", ("eager", "compiled"), warmup=RETURN_ROUNDS
                )

    def judge(self) -> None:
        """Compute the intervals that are not known yet, for which the device need not be held."""
        times, rule = self._host_times, self._rule()
        if self.e2e is None:
            self.e2e = rule.judge(times[0], times[1])
        if len(times) > 2:
            self.unrewritten = rule.judge(times[0], times[2])
        if self._device_times:
            self.device_time = rule.judge(self._device_times[0], self._device_times[1])

    @property
    def compiled_us(self) -> float:
        """The median of the compiled graph's trials so far, in microseconds."""
        return median(self._host_times[1]) / 1000

    @property
    def _host_share(self) -> float:
        return 0.75 if self._device == "cuda" else 1.0

    def _rule(self) -> StoppingRule:
        compat, first = self._settings.compat, self._settings.trials
        return StoppingRule(first, cap=first if compat else first * CAP_FACTOR, in_turns=not compat)

    def _host(self) -> None:
        rule = self._rule()
        times = self._host_times = [[] for _ in self._arms]
        while count := self._next(rule, len(times[0])):
            for part in self._parts(count):
                for arm, block in zip(times, self._watched_block(part), strict=True):
                    arm.extend(block)
                if self._between is not None:
                    with self._unbudgeted():
                        self._between(self)
            if self._enough(rule):
                break

    def _enough(self, rule: StoppingRule) -> bool:
        """Whether the interval is narrow, or there is no more time for it to become so."""
        one, other = self._host_times[:2]
        if not rule.surely_noisy(one, other):
            found = rule.judge(one, other)
            if not found.noisy:
                self.e2e = found
                return True
        return time.monotonic() >= self._end

    def _next(self, rule: StoppingRule, taken: int) -> int:
        """How many trials to take next: as many as the rule wants, as long as there is time for them."""
        count = rule.next_block(taken)
        if not taken:
            return count
        fits = int(taken * (LONG_S[self._device] / max(self.spent_s, 1e-9) - 1))
        most = max(fits, SURE_FACTOR[self._device] * self._settings.trials - taken)
        if self._between is not None:
            while count * self.spent_s < BLOCK_S * taken:
                more = rule.next_block(taken + count)
                if not more or count + more > most:
                    break
                count += more
        return min(count, most) if most >= LEAST_MORE * taken else 0

    @contextmanager
    def _unbudgeted(self) -> Iterator[None]:
        """What is done inside costs none of the time for trials."""
        start, end = time.monotonic(), self._end
        yield
        self._end = end + time.monotonic() - start

    @contextmanager
    def _held(self, warm: bool = True) -> Iterator[None]:
        """Hold the device, for which waiting costs no budget, and warm up for a moment after the wait."""
        start = time.monotonic()
        with self._hold():
            self._end += time.monotonic() - start
            if warm:
                self._timed(0, self._return_rounds(), "host", self._arms)
                self._look_at_empty()
            yield

    def _return_rounds(self) -> int:
        rounds = RETURN_ROUNDS
        if self.blocks:
            last = self.blocks[-1]
            rounds = max(rounds, int(RETURN_S * 1e9 * last.rounds / max(last.wall_ns, 1)))
        return min(rounds, self._settings.warmup)

    def _look_at_empty(self) -> None:
        """See how long a block without trials takes, anew before each one: a single look may be disturbed."""
        empty = self._timed(0, 0, "host", self._arms)
        self._empty_ns = min(self._empty_ns, max(0, empty.wall_ns - empty.cpu.waited_ns))
        self._empty_ran_ns = min(self._empty_ran_ns, empty.cpu.ran_ns)

    def _watched_block(self, count: int) -> list[tuple[int, ...]]:
        """Take a block, and what belongs beside it, under the same circumstances; anew if it does not fit.

        A neighbour may make a good block look bad, and a bad one good. So one that fits is used once as many
        have fitted as have not; when MOST_MISFITS more have not, there is a reason other than neighbours. A
        moment's standstill weighs less in a longer block, hidden time as much, so blocks grow; all of the one
        that fits is used, since part of it could hide behind the rest.
        """
        misfits, taken_again, last = 0, 0, None
        start = time.monotonic()
        for _ in range(MOST_TAKES):
            longer = 2 ** max(0, taken_again - SHORT_RETAKES)
            with self._held():
                block = self._block(max(count, min(count * longer, MOST_ROUNDS)), "host", self._arms)
                with self._unbudgeted():
                    misfit = None if self._beside is None else self._beside(self.blocks[-1])
            if misfit is None and misfits <= 1 and (not misfits or self._says_something(block)):
                return block
            if misfit is not None:
                misfits, taken_again, last = misfits + 1, taken_again + 1, misfit
                late = time.monotonic() - start > RETAKEN_S
                if misfits == MOST_MISFITS or (late and misfits >= LATE_MISFITS):
                    break
            elif self._says_something(block):
                misfits -= 1
            self._end = max(self._end, time.monotonic() + AGAIN_S)
            time.sleep(MISFIT_PAUSE_S * misfits**2)
        assert last is not None
        raise rejected(last.rule, f"{last.why}, in {misfits} blocks more than not")

    @staticmethod
    def _says_something(block: list[tuple[int, ...]]) -> bool:
        """Whether a block is long enough to be held against the control."""
        return len(block[0]) >= TELLING_ROUNDS

    def _parts(self, count: int) -> list[int]:
        """Split the first trials into secret parts; later ones are checked as they come."""
        if self._between is None or self.blocks or self._settings.compat or count < 4 * PARTS:
            return [count]
        cuts = [count * (i + 1) // PARTS + secrets.randbelow(count // (2 * PARTS)) for i in range(PARTS - 1)]
        return [high - low for low, high in zip([0, *cuts], [*cuts, count], strict=True)]

    def again(self, count: int) -> None:
        """Take one more block to check, which enters no statistics, whether or not the budget is spent."""
        self._end = max(self._end, time.monotonic() + AGAIN_S)
        self._watched_block(count)

    def audited(self, audit: Audit) -> None:
        """Time a block on other inputs, one round for each; what came of them can be asked for."""
        with self._held(warm=False):  # these times enter no statistics
            close(self._checked(len(audit.seeds), 0, "host", self._arms, audit).descriptors)

    def _block(self, count: int, clock: str, arms: tuple[Arm, ...], warmup: int = 0) -> list[tuple[int, ...]]:
        timed = self._steady(count, warmup, clock, arms)
        reply = timed.reply
        if clock == "host":
            self.blocks.append(
                Block(
                    arms=reply.trials,
                    wall_ns=timed.wall_ns,
                    empty_ns=self._empty_ns,
                    waited_ns=timed.cpu.waited_ns,
                    ran_ns=timed.cpu.ran_ns if self._device == "cpu" else -1,
                    empty_ran_ns=self._empty_ran_ns,
                    new=reply.new,
                    watch=self.watch,
                )
            )
        least = min(len(arm) for arm in reply.trials)
        return [arm[:least] for arm in reply.trials]

    def _steady(self, count: int, warmup: int, clock: str, arms: tuple[Arm, ...]) -> Timed:
        """Take a block, and take it again if the device lowered its clock meanwhile."""
        while True:
            self._clock.begin()
            timed = self._timed(count, warmup, clock, arms)
            self.spent_s += timed.wall_ns / 1e9
            why = self._clock.dropped()
            if not why:
                return timed
            if self._retaken == MOST_RETAKEN or time.monotonic() >= self._end:
                self.warnings.append(f"the device throttled during trials that count: {why}")
                return timed
            self._retaken += 1
            self.warnings.append(f"the device throttled, so a block of trials was taken again: {why}")
            time.sleep(0.1)

    def _timed(self, count: int, warmup: int, clock: str, arms: tuple[Arm, ...]) -> Timed:
        timed = self._checked(count, warmup, clock, arms, None)
        close(timed.descriptors)
        return timed

    def _checked(
        self, count: int, warmup: int, clock: str, arms: tuple[Arm, ...], audit: Audit | None
    ) -> Timed:
        """Ask for a block; raises Stop where the answer is not what was asked for."""
        # With checks and without, for every compiler: what happens between calls tells in their times.
        watched = not self._settings.compat and audit is None
        watch = new_watch() if watched else ()
        request = TimeRequest(
            watch=watch,
            keep=self._keep,
            arms=arms,
            mutated=self._mutated,
            trials=count,
            warmup=warmup,
            order_seed=secrets.randbelow(2**31),
            clock=clock,  # type: ignore[arg-type]
            sequential=self._settings.compat,
            budget_s=max(0.0, self._end - time.monotonic()) if audit is None else 3600.0,
            min_trials=min(LEAST_ROUNDS, count),
            audit=audit,
        )
        timed = self._ask(request)
        trials = timed.reply.trials
        lengths = {len(arm) for arm in trials}
        sound = len(trials) == len(arms) and (len(lengths) == 1 or self._settings.compat)
        if not sound or not all(min(LEAST_ROUNDS, count) <= length <= count for length in lengths):
            close(timed.descriptors)
            raise rejected("protocol", "trial times that were not asked for")
        spent_ns = sum(sum(arm) for arm in trials)
        if spent_ns > timed.wall_ns:
            close(timed.descriptors)
            spent, wall = spent_ns / 1e9, timed.wall_ns / 1e9
            raise rejected("clock", f"trials of {spent:.3f} s in a block of {wall:.3f} s")
        self.watch = watch if count else ()
        self.kept = min(self._keep, *lengths)
        return timed

    @staticmethod
    def single(eager_ns: int, compiled_ns: int) -> Comparison:
        """Summarise one call of each, as for interpreted kernels; there is no interval."""
        eager, compiled = timing_stats([max(eager_ns, 1)]), timing_stats([max(compiled_ns, 1)])
        speedup = eager.median_us / compiled.median_us
        return Comparison(
            eager=eager, compiled=compiled, speedup=speedup, low=speedup, high=speedup, noisy=True
        )


def new_watch() -> tuple[int, ...]:
    """Secret seeds of the contents that the inputs of a block take on; as many for every block."""
    return tuple(secrets.randbelow(2**31) for _ in range(CONTENTS))
