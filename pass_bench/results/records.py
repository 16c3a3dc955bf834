"""The records that an evaluation leaves behind: frozen, typed, printable, saved as JSON lines."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pass_bench.results.verdict import Verdict

Regime = Literal["recorded", "random", "special"]


class Record(BaseModel):
    """Base of all records: immutable, and a field nobody defined is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class TimingStats(Record):
    """Summary of the trials of one callable; times in microseconds.

    `plain_median_us` is there where `median_us` belongs to a comparison and is not the plain one.
    """

    trials: int
    median_us: float
    q25_us: float
    q75_us: float
    min_us: float
    mean_us: float | None = None
    std_us: float | None = None
    max_us: float | None = None
    plain_median_us: float | None = None


class Comparison(Record):
    """Eager and compiled timed in turns within one process: `speedup` = eager median / compiled median.

    Both medians are freed of what changed both times of a round; see `pass_bench.timing.stats.compare`.
    `low` and `high` bound the 95 % bootstrap interval of the speedup; `noisy` says that the interval stayed
    wider than the target after the largest number of trials allowed.
    """

    eager: TimingStats
    compiled: TimingStats
    speedup: float
    low: float
    high: float
    noisy: bool = False


class WorstElement(Record):
    """The element furthest outside (or nearest to) its tolerance."""

    index: tuple[int, ...]
    expected: float | str
    actual: float | str
    tolerance: float


class TensorReport(Record):
    """How one output, or one input changed in place, compares with eager.

    `passes_from` is the smallest t in [-10, 5] at which it passes, None if it passes at none of them.
    `float64_error` and `eager_float64_error` are max |x - x64| of compiled and of eager, against a run in
    float64.
    """

    where: str  # "output[0]", "effect on in_2"
    dtype: str  # eager's, "float16"
    compiled_dtype: str
    shape: tuple[int, ...]
    passes_from: int | None
    max_diff: float | None = None
    mean_diff: float | None = None
    nonfinite: bool = False  # NaN or inf where eager has none, or the other way round
    worst: WorstElement | None = None
    float64_error: float | None = None
    eager_float64_error: float | None = None


class RegimeReport(Record):
    """The comparison under one input regime; `skipped` says why there is none."""

    regime: Regime
    seed: int
    passes_from: int | None = None
    tensors: tuple[TensorReport, ...] = ()
    error: str = ""  # first line of what the compiled graph raised, if it raised
    skipped: str = ""


class PassReport(Record):
    """What one pass did to one graph: `matched` before overlaps were removed, `replaced` after."""

    name: str
    matched: int
    replaced: int
    skipped: str = ""  # why it was not tried (DEVICES) or not searched for to the end (limit)
    nearest_miss: str = ""  # in words, when it matched nowhere


class PeakMemory(Record):
    """Peak memory in bytes above what was allocated before the call, inputs left out."""

    eager_bytes: int
    compiled_bytes: int


class Violation(Record):
    """One broken source rule or guard."""

    rule: str
    why: str
    file: str = ""
    line: int | None = None


class PhaseTimes(Record):
    """Where the wall clock of one graph went, in seconds; the device is held in `time_s` alone."""

    start_s: float = 0.0  # until its processes stood
    prepare_s: float = 0.0  # passes loaded, graph captured, kernels compiled; eager's first run
    verify_s: float = 0.0
    guard_s: float = 0.0  # watched calls, a last look, waiting for the control
    wait_s: float = 0.0  # while others were timed
    time_s: float = 0.0  # trials, and between them audits and the control
    trials_s: float = 0.0  # of time_s: the trials
    report_s: float = 0.0  # statistics, memory, special inputs
    total_s: float = 0.0


class GraphResult(Record):
    """Everything known about one graph of one sample under one compiler."""

    version: Literal[1] = 1
    sample: str
    graph: str  # as listed in graph_list.txt
    index: int
    compiler: str
    device: str  # "cpu" or "cuda"
    device_name: str = ""
    verdict: Verdict
    reason: str = ""  # one line for people
    detail: str = ""  # first lines of the traceback that matters
    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    passes: tuple[PassReport, ...] = ()
    graph_breaks: int = 0
    regimes: tuple[RegimeReport, ...] = ()
    passes_from: int | None = None  # over all scored regimes; None: at no t, or not run
    nonfinite: bool = False
    weak_at: int | None = None
    e2e: Comparison | None = None
    device_time: Comparison | None = None
    unrewritten: Comparison | None = None  # the same compiler without passes
    interpreted: bool = False  # Triton ran under its interpreter: the time is not a speed
    memory: PeakMemory | None = None
    kernels: tuple[str, ...] = ()  # of the pass, as launched in a watched call: "triton add_relu"
    floor_us: float = 0.0  # what writing the outputs takes at least
    log_tail: str = ""  # captured output of the pass, never parsed
    phases: PhaseTimes = PhaseTimes()

    @property
    def weak(self) -> bool:
        """Whether zeros, the mean or an input passed through would be right at t <= -3."""
        return self.weak_at is not None and self.weak_at <= -3


class EnvironmentRecord(Record):
    """The machine and the versions a result was measured with."""

    harness: str
    python: str
    torch: str
    triton: str = ""
    device: str
    device_name: str
    driver: str = ""
    cpu: str = ""
    threads: int = 1
    tf32: bool = False
    commit: str = ""
    clocks: str = ""  # "sm 1980 MHz, memory 2619 MHz": the highest that the driver allows
    calibration: dict[str, float] = {}  # what `passbench calibrate` measured on this machine


class EvalSettings(Record):
    """What a user chose for an evaluation."""

    compiler: str = "pass_mgr_direct"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    warmup: int = 25
    trials: int = 100
    regimes: tuple[Regime, ...] = ("recorded", "random")
    compat: bool = False
    pattern_limit: int | None = None
    replacement_func_limit: int | None = None
    timeout_s: float = 300.0
    time_budget_s: float = 60.0  # for the timed trials of one graph; at least three rounds run in any case
    seed: int = 1024
    sandbox: Literal["require", "auto", "off"] = "auto"
    source_rules: bool = True
    guards: bool = True
    memory_limit_bytes: int = 8 << 30
