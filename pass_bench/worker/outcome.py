"""Ends the evaluation of a graph early, with a verdict; and puts faults into verdicts."""

from __future__ import annotations

from pass_bench.results.records import PassReport, RegimeReport, TensorReport, Violation
from pass_bench.results.verdict import Verdict
from pass_bench.worker.faults import one_line, printable
from pass_bench.worker.messages import Fault

VERDICT_OF = {
    "bad_input": Verdict.COMPILE_FAIL,
    "eager_fail": Verdict.EAGER_FAIL,
    "compile_fail": Verdict.COMPILE_FAIL,
    "runtime_fail": Verdict.RUNTIME_FAIL,
    "unsupported_on_cpu": Verdict.UNSUPPORTED_ON_CPU,
    "rejected": Verdict.REJECTED,
    "type_mismatch": Verdict.TYPE_MISMATCH,
}


class Stop(Exception):
    """The graph has its verdict; nothing more of it is run."""

    def __init__(
        self, verdict: Verdict, reason: str, detail: str = "", violations: tuple[Violation, ...] = ()
    ) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = one_line(reason, 1000)
        self.detail = printable(detail)[-6000:]
        self.violations = violations


def stop_of(fault: Fault, device: str) -> Stop:
    """Turn what a candidate says went wrong into a verdict that counts.

    Unscored verdicts are not a candidate's to give: `infra` becomes a run-time failure, and so does
    `unsupported_on_cpu` on a GPU.
    """
    verdict = VERDICT_OF.get(fault.fault, Verdict.RUNTIME_FAIL)
    if verdict is Verdict.UNSUPPORTED_ON_CPU and device != "cpu":
        verdict = Verdict.RUNTIME_FAIL
    if verdict is Verdict.EAGER_FAIL:
        verdict = Verdict.RUNTIME_FAIL
    violations: tuple[Violation, ...] = ()
    if verdict is Verdict.REJECTED:
        violations = (
            Violation(
                rule=one_line(fault.rule), why=one_line(fault.reason), file=fault.file, line=fault.line
            ),
        )
    return Stop(verdict, fault.reason, fault.detail, violations)


def rejected(rule: str, why: str) -> Stop:
    """Return the verdict for a pass that broke a rule of the measurement itself."""
    return Stop(Verdict.REJECTED, f"{rule}: {why}", violations=(Violation(rule=rule, why=one_line(why)),))


def accuracy_reason(regimes: list[RegimeReport], baseline: int) -> str:
    """Say in one line which element of which output is wrong, and under which inputs."""
    wrong = [report for report in regimes if report.passes_from is None or report.passes_from > baseline]
    if not wrong:
        return ""
    report = wrong[0]
    right = [other.regime for other in regimes if other not in wrong]
    only = f" (right on the {right[0]} inputs only)" if right else ""
    tensors = [t for t in report.tensors if t.passes_from is None or t.passes_from > baseline]
    return (
        f"{report.regime} inputs: {words_of(tensors[0])}{only}"
        if tensors
        else f"{report.regime} inputs{only}"
    )


def words_of(report: TensorReport) -> str:
    """Return "output[0] at [1, 2]: 0.5, eager has 0.25 (tolerance 1e-05); right from t = -2"."""
    text = report.where
    if report.worst is not None:
        worst = report.worst
        place = f" at {list(worst.index)}" if report.shape else ""
        text += f"{place}: {shown(worst.actual)}, eager has {shown(worst.expected)}"
        if worst.tolerance:
            text += f" (tolerance {worst.tolerance:.2g})"
    level = "right at no t" if report.passes_from is None else f"right from t = {report.passes_from}"
    return f"{text}; {level}"


def shown(value: float | str) -> str:
    """Print a number with 6 digits."""
    return value if isinstance(value, str) else f"{value:.6g}"


def overall(regimes: list[RegimeReport]) -> int | None:
    """Return the smallest t at which every regime passes, None if one passes nowhere or there is none."""
    levels = [report.passes_from for report in regimes if report.regime != "special"]
    if not levels or None in levels:
        return None
    return max(level for level in levels if level is not None)


def miss_reason(passes: tuple[PassReport, ...]) -> str:
    """Say why no pass changed the graph."""
    if not passes:
        return "there is no pass"
    matched = [report for report in passes if report.matched]
    if matched:
        return f"{matched[0].name} matched but could not be put in place"
    skipped = [report for report in passes if report.skipped]
    if len(skipped) == len(passes):
        return f"no pass was tried: {skipped[0].name}: {skipped[0].skipped}"
    near = next((report for report in passes if report.nearest_miss), None)
    return f"no pass matched; {near.name}: {one_line(near.nearest_miss)}" if near else "no pass matched"
