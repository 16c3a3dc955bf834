"""How the supervisor finds out whether a score was earned: guards, audits, a control, clocks; no torch."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pass_bench.guard.audit_modes import AUDIT_MODES, AuditMode
from pass_bench.guard.clock_fit import (
    LEAST_BLOCKS,
    LEAST_ROUNDS,
    Block,
    Misfit,
    block_misfit,
    clock_misfit,
    eager_misfit,
    memory_misfit,
    uneven,
)
from pass_bench.guard.floor import floor_us
from pass_bench.guard.kernel_log import MAX_GHOSTS
from pass_bench.guard.processes import busy_threads
from pass_bench.results.records import EvalSettings, Regime, Violation
from pass_bench.results.verdict import Verdict
from pass_bench.score.tolerance import BASELINE_T
from pass_bench.worker.control import Control, ControlLost
from pass_bench.worker.conversation import SPIN_S, Conversation, close
from pass_bench.worker.faults import one_line
from pass_bench.worker.messages import Audit, Compared, Drawn, GuardRequest, KeptDone
from pass_bench.worker.outcome import Stop, rejected
from pass_bench.worker.trials import PARTS, Trials

LEVELS_WORSE = 2  # a call that is this many powers of ten less exact than the verified ones was no rounding
CONTROL_ROUNDS = 15
SURE_ROUNDS, SURE_NS = 200, 20_000_000  # at most so many, for so long: a moment's standstill hides little
GHOSTS_BELOW_NS = 500_000_000
SLOW_NS = 200_000_000
MORE_BLOCKS = 6
MEMORY_LOOKS = 3
PAUSE_S = 0.1
KEPT, KEPT_BYTES = 3, 4 << 20
CHECKED_BLOCKS = 4  # of later ones every fourth
BUSY_THREADS = 0.5
BUSY_TRIES = 4


@dataclass
class Evidence:
    """What was found that belongs in the record."""

    kernels: tuple[str, ...] = ()
    floor_us: float = 0.0
    doubtful: Compared | None = None  # a call slightly outside the tolerance
    doubtful_seed: int = 0
    doubtful_regime: Regime = "random"


@dataclass(frozen=True)
class KeptCall:
    """What a timed call returned, and which content its inputs had: a nudge's seed, None the usual."""

    done: KeptDone
    descriptors: tuple[int, ...]
    nudge: int | None


class Integrity:
    """The checks of one graph; each raises Stop with `rejected` where one fails."""

    def __init__(
        self, talk: Conversation, settings: EvalSettings, device: str, device_name: str, recorded: Drawn
    ):
        self._talk = talk
        self._settings = settings
        self._device, self._device_name = device, device_name
        self._recorded = recorded
        self._level = BASELINE_T
        self._random = "random" in settings.regimes and not settings.compat
        self._modes: list[AuditMode] = []  # of the audit between blocks, until it was done
        self._last_modes: list[AuditMode] = []  # of that after the last block
        self._audit_after = 0
        self._kept_checks = 0
        self._control: Control | None = None
        self._control_blocks: list[Block] = []
        self._look_closer = False
        self.evidence = Evidence()
        self.warnings: list[str] = []

    def verified_at(self, level: int) -> None:
        """Say at which tolerance level the verified calls were right."""
        self._level = max(level, BASELINE_T)

    # ---- one watched call

    def guarded_call(self, run_ns: int) -> None:
        """Have one call run under all guards, on fresh inputs, with uninitialised memory poisoned."""
        drawn = self._draw()
        regime: Regime = "random" if drawn is not self._recorded else "recorded"
        request = GuardRequest(
            regime=regime,
            seed=drawn.seed,
            budget_bytes=drawn.payload_bytes,
            ghosts=run_ns < GHOSTS_BELOW_NS,
        )
        done, descriptors = self._talk.guard(request)
        try:
            _reject(done.violations)
            compared = self._talk.compare(done.payload, descriptors, drawn, self._level)
        finally:
            close(descriptors)
        self.evidence.kernels = tuple(one_line(name, 200) for name in done.kernels)
        self._say_what_was_silenced(len(done.kernels), run_ns)
        self._exact(compared, drawn, regime, "uninitialised", "wrong where uninitialised memory was poisoned")

    def _say_what_was_silenced(self, kernels: int, run_ns: int) -> None:
        """Warn where not each kernel was left out once to see whether it does anything."""
        if kernels and run_ns >= GHOSTS_BELOW_NS:
            self.warnings.append(
                f"no kernel was left out to see what it does: a call takes {run_ns / 1e9:.1f} s"
            )
        elif kernels > MAX_GHOSTS:
            self.warnings.append(f"{MAX_GHOSTS} of {kernels} kernels were left out to see what they do")

    def changes(self) -> None:
        """Look at what passes have changed in their process, and whether anything still runs there."""
        done, descriptors = self._talk.guard(GuardRequest(run=False))
        close(descriptors)
        _reject(done.violations)
        time.sleep(SPIN_S)
        seen = self._talk.glances
        for attempt in range(BUSY_TRIES):
            busy = busy_threads(self._talk.pid, seen)
            if busy < BUSY_THREADS:
                return
            time.sleep(0.05 * (attempt + 1))
            seen = []
        raise rejected("idle-work", f"{busy:.1f} threads are busy while nothing was asked for")

    # ---- beside the trials

    def before_trials(self, control: Control | None, warmup: int, budget_s: float) -> None:
        """Wait for the control, warm it, and choose how to audit.

        Once after a block that is not the first one, and once after the last, which a pass cannot know.
        """
        if self._random:
            chosen = secrets.SystemRandom().sample(AUDIT_MODES, len(AUDIT_MODES))
            if self._recorded.eager_ns > SLOW_NS:
                self._last_modes = chosen[:1]
            else:
                self._modes, self._last_modes = chosen, ["refilled"]
        self._audit_after = PARTS - secrets.randbelow(PARTS - 1)
        self._control = control
        if control is None:
            return
        try:
            control.warm(min(warmup, 10), budget_s / 8)
        except ControlLost as error:
            self._lost(error)

    def between_blocks(self, trials: Trials) -> None:
        """Look at calls of the block, and audit after one of the blocks."""
        with ExitStack() as stack:
            self._compare_kept(self._take_kept(trials, stack))
        self._audit_after -= 1
        if self._modes and self._audit_after <= 0:
            modes, self._modes = self._modes, []
            self._audit(trials, modes)

    def after_trials(self, trials: Trials) -> None:
        """Hold all times against the clock outside, the control, fresh inputs and the physical floor."""
        self._look_closer = True
        with ExitStack() as stack:
            self._compare_kept(self._take_kept(trials, stack))
        if modes := self._modes or self._last_modes:
            self._audit(trials, modes)
        while len(self._blocks(trials)) < LEAST_BLOCKS:
            trials.again(CONTROL_ROUNDS)
            if trials.blocks[-1].rounds < LEAST_ROUNDS:
                break  # calls take so long that no block would say anything
        last = len(trials.blocks) - 1
        for attempt in range(MORE_BLOCKS + 1):
            misfit = self._misfit(trials, last)
            if misfit is None:
                break
            if attempt == MORE_BLOCKS:
                raise rejected(misfit.rule, misfit.why)
            time.sleep(PAUSE_S * (attempt + 1))  # a neighbour may be to blame: look again, and longer
            trials.again(max(_sure_rounds(trials.blocks[last:]), CONTROL_ROUNDS << attempt))
        self._reject_memory(trials)
        floor = floor_us(self._recorded.written_bytes, self._device, self._device_name)
        self.evidence.floor_us = floor
        if trials.compiled_us < floor:
            why = f"{trials.compiled_us:.2f} us, but writing the outputs takes {floor:.2f} us at least"
            raise rejected("below-floor", why)

    @staticmethod
    def _blocks(trials: Trials, start: int = 0) -> list[Block]:
        """Blocks from `start` on that are long enough to be judged."""
        return [b for b in trials.blocks[start:] if all(b.arms) and len(b.arms[0]) >= LEAST_ROUNDS]

    def _misfit(self, trials: Trials, last: int) -> Misfit | None:
        """Hold all blocks against the control, and the clock of those from the last one of the trials on.

        A pass that behaves at first has good blocks; which one is the last it cannot know.
        """
        blocks = self._blocks(trials)
        if len(blocks) < LEAST_BLOCKS:
            return None  # of slow calls there may be one, and a neighbour may have disturbed it
        late = self._blocks(trials, last) or blocks  # too short a one says nothing
        return eager_misfit(blocks, self._control_blocks) or clock_misfit(late, self._control_blocks)

    def _reject_memory(self, trials: Trials) -> None:
        """Raise Stop if calls are fast only on content seen before, however often one looks."""
        for attempt in range(MEMORY_LOOKS):
            misfit = memory_misfit(trials.blocks)
            if misfit is None:
                return
            if attempt < MEMORY_LOOKS - 1:
                time.sleep(PAUSE_S)
                trials.again(max(CONTROL_ROUNDS, self._settings.trials // PARTS))
        assert misfit is not None
        raise rejected(misfit.rule, misfit.why)

    def _take_kept(self, trials: Trials, stack: ExitStack) -> list[KeptCall]:
        """Ask what calls of the last block returned, if nobody has: of each early block; to be compared."""
        seeds, trials.watch = trials.watch, ()
        self._kept_checks += bool(seeds)
        if not seeds or (self._kept_checks > CHECKED_BLOCKS and secrets.randbelow(CHECKED_BLOCKS)):
            return []
        kept = []
        for which in range(trials.kept):
            done, descriptors = self._talk.kept(which, self._recorded.payload_bytes)
            stack.callback(close, descriptors)
            if not 0 <= done.number <= len(seeds):
                raise rejected("protocol", "outputs on a content that was not asked for")
            kept.append(KeptCall(done, descriptors, seeds[done.number - 1] if done.number else None))
        return kept

    def _compare_kept(self, kept: Sequence[KeptCall]) -> None:
        """Have the reference compare them; calls on the same content need eager once."""
        for nudge in dict.fromkeys(call.nudge for call in kept):
            drawn = self._talk.draw("recorded", nudge=nudge, light=True)
            for call in kept:
                if call.nudge == nudge:
                    compared = self._talk.compare(call.done.payload, call.descriptors, drawn, self._level)
                    self._exact(compared, drawn, "recorded", "stale-output", "wrong in a timed call")

    def control_block(self, block: Block) -> Misfit | None:
        """Hold a block against the control; to be called while the device is held.

        The control is timed anew beside the first blocks, in a closer look, and beside blocks that do not fit
        what is known of it.
        """
        if self._control is None:
            return None
        enough = len(self._control_blocks) >= LEAST_BLOCKS and not self._look_closer
        if enough and block_misfit(block, self._control_blocks) is None:
            return None
        try:
            rounds, enough_ns = self._control_rounds(block)
            self._control_blocks.append(self._control.block(rounds, 2.0, block.watch, enough_ns))
        except ControlLost as error:
            self._lost(error)
            return None
        return block_misfit(block, self._control_blocks)

    def _control_rounds(self, block: Block) -> tuple[int, int]:
        """How many, and how many nanoseconds are enough.

        More where the host stands still at times, which makes short blocks look slow between calls.
        """
        if uneven(self._control_blocks, block):
            return _sure_rounds(self._control_blocks), sys.maxsize
        return CONTROL_ROUNDS, SURE_NS

    def _lost(self, error: ControlLost) -> None:
        self.warnings.append(f"no control for eager's time: {one_line(str(error), 200)}")
        self._control = None

    def _audit(self, trials: Trials, modes: Sequence[AuditMode]) -> None:
        """Time a round each with other content in these places, and verify all of them."""
        seeds = tuple(secrets.randbelow(2**31) for _ in modes)
        try:
            trials.audited(Audit(modes=tuple(modes), seeds=seeds))
        except Stop as stop:
            failed = stop.verdict is Verdict.RUNTIME_FAIL
            if failed and any(self._talk.draw("random", seed=seed, light=True).skipped for seed in seeds):
                return  # eager fails there too
            raise
        for which, (mode, seed) in enumerate(zip(modes, seeds, strict=True)):
            drawn = self._talk.draw("random", seed=seed, light=True)
            if drawn.skipped:
                continue
            done, descriptors = self._talk.kept(which, drawn.payload_bytes)
            try:
                compared = self._talk.compare(done.payload, descriptors, drawn, self._level)
            finally:
                close(descriptors)
            why = f"wrong in a timed call on other inputs ({mode})"
            self._exact(compared, drawn, "random", "stale-output", why)

    def _exact(self, compared: Compared, drawn: Drawn, regime: Regime, rule: str, why: str) -> None:
        """Reject what is far less exact than the verified calls; keep what is slightly so for the verdict."""
        level = compared.passes_from
        if compared.mismatch or level is None or level > self._level + LEVELS_WORSE:
            raise rejected(rule, f"{why}: {compared.reason or _worst(compared)}")
        if level > self._level and self.evidence.doubtful is None:
            self.evidence.doubtful = compared
            self.evidence.doubtful_seed, self.evidence.doubtful_regime = drawn.seed, regime

    def _draw(self) -> Drawn:
        if self._random:
            drawn = self._talk.draw("random", light=True)
            if not drawn.skipped:
                return drawn
        self._talk.draw("recorded", light=True)
        return self._recorded


def _sure_rounds(blocks: Sequence[Block]) -> int:
    """How many rounds of the quickest of these blocks a moment's standstill hides little in."""
    round_ns = min((block.wall_ns - block.empty_ns) / block.rounds for block in blocks)
    return max(CONTROL_ROUNDS, min(SURE_ROUNDS, int(SURE_NS / max(round_ns, 1.0))))


def kept_calls(recorded: Drawn) -> int:
    """How many calls of a block are looked at: fewer where copying them would take long."""
    return KEPT if recorded.payload_bytes <= KEPT_BYTES else 1


def _worst(compared: Compared) -> str:
    differences = [report.max_diff for report in compared.tensors if report.max_diff is not None]
    return f"off by {max(differences):.3g}" if differences else "not equal"


def _reject(violations: tuple[Violation, ...]) -> None:
    if violations:
        clean = tuple(
            Violation(rule=one_line(v.rule, 60), why=one_line(v.why), file=one_line(v.file), line=v.line)
            for v in violations[:50]
        )
        raise Stop(Verdict.REJECTED, f"{clean[0].rule}: {clean[0].why}", violations=clean)
