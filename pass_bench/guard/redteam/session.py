"""One run of the suite: cases and faults, printed as they come, kept in a file that is always whole."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from pass_bench.errors import HarnessFailure
from pass_bench.guard.redteam import table
from pass_bench.guard.redteam.cases import Case
from pass_bench.guard.redteam.faults import FaultEvaluator, FaultOutcome, run_faults
from pass_bench.guard.redteam.runner import Outcome, run_suite
from pass_bench.results.records import EnvironmentRecord

FAULT_TIMEOUT_S = {"cpu": 20.0, "cuda": 25.0}
FAULT_SHARE = 0.3  # of the seconds there are
WRITE_EVERY_S = 2.0


class Session:
    """Runs what is asked for within `seconds`, tells `say` of each outcome, and keeps `out` up to date."""

    def __init__(
        self,
        device: str,
        jobs: int,
        seconds: float | None,
        out: Path | None,
        say: Callable[[str], None],
    ):
        self._device, self._jobs, self._seconds, self._out, self._say = device, jobs, seconds, out, say
        self._start = time.monotonic()
        self._written = 0.0
        self._environment: EnvironmentRecord | None = None
        self.outcomes: list[Outcome] = []
        self.faults: list[FaultOutcome] = []
        self.left_running = ""

    @property
    def unexpected(self) -> int:
        """How many outcomes were not as expected."""
        wrong = sum(not outcome.as_expected for outcome in self.outcomes)
        return wrong + sum(not outcome.as_expected for outcome in self.faults) + bool(self.left_running)

    def run(self, cases: Iterable[Case], compilers: Iterable[str], faults: bool) -> None:
        """Run faults, if wanted, then cases."""
        if faults:
            self._run_faults()
        left = None if self._seconds is None else self._seconds - (time.monotonic() - self._start)
        run_suite(cases, compilers, self._device, self._case_done, self._jobs, left, self._machine)
        self._say(table.summary(self.outcomes))
        self._write()

    def _run_faults(self) -> None:
        share = None if self._seconds is None else self._seconds * FAULT_SHARE
        try:
            with FaultEvaluator(self._device, FAULT_TIMEOUT_S[self._device]) as evaluator:
                self._machine(evaluator.environment)
                run_faults(evaluator, self._jobs, self._fault_done, seconds=share)
        except HarnessFailure as error:
            self.left_running = str(error)
            self._say(f"!! faults: {error}")

    def _machine(self, environment: EnvironmentRecord | None) -> None:
        self._environment = environment

    def _case_done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        mark = "  " if outcome.as_expected else "!!"
        words = f"{mark} {outcome.compiler:16} {outcome.case.name:28} {table.said(outcome)}"
        if not outcome.as_expected:
            words += f" (expected {outcome.case.expected}): {outcome.reason}"
        self._tell(words, outcome.seconds)

    def _fault_done(self, outcome: FaultOutcome) -> None:
        self.faults.append(outcome)
        mark = "  " if outcome.as_expected else "!!"
        words = f"{mark} {'fault':16} {outcome.fault.name:28} {', '.join(outcome.verdicts)}"
        words += f"; longest kill {outcome.gone_s:.2f} s"
        self._tell(words if outcome.as_expected else f"{words}: {outcome.reason}", outcome.seconds)

    def _tell(self, words: str, seconds: float) -> None:
        self._say(f"{words}  [{seconds:.1f} s, {time.monotonic() - self._start:.0f} s in all]")
        if time.monotonic() - self._written > WRITE_EVERY_S:
            self._write()

    def _write(self) -> None:
        if self._out is None:
            return
        self._written = time.monotonic()
        command = " ".join(["passbench", *sys.argv[1:]])
        taken = time.monotonic() - self._start
        text = table.page(self.outcomes, self.faults, self._environment, command, taken)
        if self.left_running:
            text += f"\nUNEXPECTED {self.left_running}\n"
        self._out.write_text(text, encoding="utf-8")
