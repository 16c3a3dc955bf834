"""The messages between supervisor, zygote, reference child and candidate child; no torch.

What a candidate sends is hostile: every string, list and number below that it can fill has a bound.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from pass_bench.guard.audit_modes import AuditMode
from pass_bench.results.records import EnvironmentRecord, PassReport, Regime, TensorReport, Violation

Line = Annotated[str, Field(max_length=2000)]
Text = Annotated[str, Field(max_length=20_000)]
Nanoseconds = Annotated[int, Field(ge=1, le=10**14)]


class Message(BaseModel):
    """Base of all messages: immutable, unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


# ---- supervisor and zygote


class ForkRequest(Message):
    """Fork a child; its socket, stdout and stderr travel beside the message, in this order."""

    kind: Literal["fork"] = "fork"
    role: Literal["reference", "candidate"]


class ReapRequest(Message):
    """Wait for a child that ended, and end every stray process it left behind."""

    kind: Literal["reap"] = "reap"
    pid: int


class ZygoteRequest(Message):
    request: ForkRequest | ReapRequest = Field(discriminator="kind")


class ZygoteReply(Message):
    """`pid` of a new child, or `status` (as of waitpid) of one that ended; `error` if neither."""

    pid: int = 0
    status: int = 0
    error: Line = ""


# ---- what both children may answer

FaultKind = Literal[
    "bad_input",
    "eager_fail",
    "compile_fail",
    "runtime_fail",
    "unsupported_on_cpu",
    "rejected",
    "type_mismatch",
    "infra",
]


class Fault(Message):
    """Something went wrong in the child: one line and the end of the traceback."""

    kind: Literal["fault"] = "fault"
    fault: FaultKind
    reason: Line
    detail: Text = ""
    rule: Line = ""
    file: Line = ""
    line: int | None = None


class Done(Message):
    """Nothing to report."""

    kind: Literal["done"] = "done"


# ---- tensors beside a message


class Leaf(Message):
    """One output, or one input after the run: a tensor whose bytes lie at `offset`, or a plain value.

    A tensor larger than the byte budget comes without its bytes (`omitted`).
    """

    where: Annotated[str, Field(max_length=500)]
    type: Literal["tensor", "int", "float", "bool", "none", "other"]
    dtype: Annotated[str, Field(max_length=40)] = ""
    shape: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**48)], ...], Field(max_length=64)] = ()
    offset: Annotated[int, Field(ge=0)] = 0
    nbytes: Annotated[int, Field(ge=0)] = 0
    omitted: bool = False
    value: Annotated[str, Field(max_length=400)] = ""  # repr of a plain value; the type's name for "other"


class Payload(Message):
    """The outputs and the changed inputs of one run; the bytes are in the descriptor beside the message."""

    outputs: Annotated[tuple[Leaf, ...], Field(max_length=10_000)]
    effects: Annotated[tuple[Leaf, ...], Field(max_length=10_000)]
    total_bytes: Annotated[int, Field(ge=0)] = 0


# ---- supervisor and reference child


class ProbeRequest(Message):
    """Say what this machine is: versions, device, thread count."""

    kind: Literal["probe"] = "probe"
    device: Literal["cpu", "cuda"]


class ProbeReply(Message):
    kind: Literal["probe_reply"] = "probe_reply"
    environment: EnvironmentRecord
    cuda_available: bool


class ReferenceJob(Message):
    """Load a graph on a device; `seed` is set before every run."""

    kind: Literal["reference_job"] = "reference_job"
    graph_path: str
    device: Literal["cpu", "cuda"]
    seed: int
    compat: bool = False


class DrawRequest(Message):
    """Make inputs of a regime and run eager; a draw on which eager fails is repeated with the next seed.

    With `nudge`, a few elements are changed afterwards (guard/audit.py). A `light` draw checks a call and is
    not scored: no float64 run, no null baselines.
    """

    kind: Literal["draw"] = "draw"
    regime: Regime
    seed: int
    redraws: int = 0
    nudge: int | None = None
    light: bool = False


class Drawn(Message):
    """Eager ran with `seed`; or `skipped` says why no draw was usable.

    `payload_bytes` is what an honest answer needs at most, `outputs` and `effects` what there is to compare,
    `written_bytes` the memory of outputs that are no views of inputs. `unordered`: operators for which eager
    differs from run to run.
    """

    kind: Literal["drawn"] = "drawn"
    seed: int
    skipped: str = ""
    outputs: int = 0
    effects: tuple[int, ...] = ()
    payload_bytes: int = 0
    nonfinite: bool = False
    eager_ns: int = 0
    written_bytes: int = 0
    unordered: tuple[str, ...] = ()


class CompareRequest(Message):
    """Compare a candidate's answer with the last draw; the bytes are in the descriptor beside the message.

    That all passes at level `enough` is all there is to know then.
    """

    kind: Literal["compare"] = "compare"
    payload: Payload
    enough: int | None = None


class Compared(Message):
    kind: Literal["compared"] = "compared"
    tensors: tuple[TensorReport, ...]
    passes_from: int | None
    mismatch: Literal["", "shape", "type"] = ""
    reason: str = ""


class SummaryRequest(Message):
    """Ask for what holds over all draws of the scored regimes."""

    kind: Literal["summary"] = "summary"


class Summary(Message):
    kind: Literal["summary_reply"] = "summary_reply"
    weak_at: int | None
    eager_peak_bytes: int | None


class ForgetRequest(Message):
    """Free everything held for a graph."""

    kind: Literal["forget"] = "forget"


# ---- supervisor and candidate child


class CandidateJob(Message):
    """Everything a candidate needs for one graph; it reads the graph and enters its box.

    One that runs nothing but the model itself needs no box (`boxed`), and serves for one graph after another.
    """

    kind: Literal["candidate_job"] = "candidate_job"
    sample_path: str
    graph_path: str
    pass_dir: str
    const_pass_dir: str | None = None
    pattern_limit: int | None = None
    replacement_func_limit: int | None = None
    compiler: str
    device: Literal["cpu", "cuda"]
    seed: int
    sandbox: Literal["require", "auto", "off"] = "auto"
    cache_dir: str = ""
    with_unrewritten: bool = True
    boxed: bool = True


class Entered(Message):
    """The candidate is in its box; `warnings` say what the box lacks. Nothing of a pass has run yet."""

    kind: Literal["entered"] = "entered"
    warnings: Annotated[tuple[Line, ...], Field(max_length=50)] = ()


class LoadRequest(Message):
    """Load the passes, nothing more: finds what is wrong with a pass_dir."""

    kind: Literal["load"] = "load"


class PrepareRequest(Message):
    """Load the passes, capture, rewrite and compile; `compile_only`: for the caches alone."""

    kind: Literal["prepare"] = "prepare"
    compile_only: bool = False


class Loaded(Message):
    kind: Literal["loaded"] = "loaded"
    names: Annotated[tuple[Line, ...], Field(max_length=10_000)] = ()
    skipped: Annotated[tuple[PassReport, ...], Field(max_length=10_000)] = ()


class Prepared(Message):
    """The graph is captured, rewritten and compiled."""

    kind: Literal["prepared"] = "prepared"
    passes: Annotated[tuple[PassReport, ...], Field(max_length=10_000)] = ()
    graph_breaks: Annotated[int, Field(ge=0, le=10_000)] = 0
    note: Line = ""
    warnings: Annotated[tuple[Line, ...], Field(max_length=50)] = ()
    has_unrewritten: bool = False


class RunRequest(Message):
    """Run once on the inputs of a regime and send back outputs and changed inputs."""

    kind: Literal["run"] = "run"
    regime: Regime
    seed: int
    budget_bytes: int


class RunDone(Message):
    kind: Literal["run_done"] = "run_done"
    payload: Payload
    interpreted: bool = False
    nanoseconds: Nanoseconds = 1


class MemoryRequest(Message):
    """Measure the peak memory of one call."""

    kind: Literal["memory"] = "memory"


class MemoryReply(Message):
    kind: Literal["memory_reply"] = "memory_reply"
    peak_bytes: Annotated[int, Field(ge=0, lt=2**50)] | None


class GuardRequest(Message):
    """Run once under all guards, on the inputs of a regime; with `run` False only look what changed."""

    kind: Literal["guard"] = "guard"
    regime: Regime = "recorded"
    seed: int = 0
    budget_bytes: int = 0
    run: bool = True
    ghosts: bool = True


class GuardDone(Message):
    """What the guards saw; the outputs are those of a call whose uninitialised memory was poisoned."""

    kind: Literal["guard_done"] = "guard_done"
    violations: Annotated[tuple[Violation, ...], Field(max_length=200)] = ()
    kernels: Annotated[tuple[Line, ...], Field(max_length=200)] = ()
    payload: Payload | None = None


Arm = Literal["eager", "compiled", "unrewritten"]


class Audit(Message):
    """Inputs for an audited block: for each round a random draw, and where to put it (guard/audit.py)."""

    modes: tuple[AuditMode, ...]
    seeds: tuple[int, ...]


class TimeRequest(Message):
    """Time `trials` rounds; in each, every arm runs once, in an order drawn from `order_seed`.

    `sequential` runs one arm after the other instead. The block ends early after `budget_s`, but not before
    `min_trials` rounds.
    """

    kind: Literal["time"] = "time"
    arms: tuple[Arm, ...]
    mutated: tuple[int, ...] = ()  # inputs that eager changes; the others are shared between calls
    trials: int
    warmup: int
    order_seed: int
    clock: Literal["host", "device"] = "host"
    sequential: bool = False
    budget_s: float = 60.0
    min_trials: int = 3
    keep: int = 1  # how many calls of a watched block can be asked for afterwards
    watch: tuple[int, ...] = ()  # seeds of what inputs hold now and then (guard/watched_inputs.py)
    audit: Audit | None = None


class KeptRequest(Message):
    """Ask what a call of the last block returned: the n-th of those drawn after them; of an audited block,
    that of the n-th round.
    """

    kind: Literal["kept"] = "kept"
    which: int
    budget_bytes: int


class KeptDone(Message):
    """The outputs, and on which content: 0 the usual one, n that of the n-th seed of `watch`."""

    kind: Literal["kept_done"] = "kept_done"
    payload: Payload
    number: int


class TimeReply(Message):
    """Nanoseconds per arm (in the order asked for) and round.

    `new` are the rounds whose compiled call was the first one of the block on what a seed of `watch` makes of
    the inputs.
    """

    kind: Literal["time_reply"] = "time_reply"
    trials: Annotated[
        tuple[Annotated[tuple[Nanoseconds, ...], Field(max_length=100_000)], ...], Field(max_length=3)
    ]
    new: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=100)] = ()


class ReferenceRequest(Message):
    request: ProbeRequest | ReferenceJob | DrawRequest | CompareRequest | SummaryRequest | ForgetRequest = (
        Field(discriminator="kind")
    )


class ReferenceReply(Message):
    reply: Fault | Done | ProbeReply | Drawn | Compared | Summary = Field(discriminator="kind")


class CandidateRequest(Message):
    request: (
        CandidateJob
        | LoadRequest
        | PrepareRequest
        | RunRequest
        | MemoryRequest
        | TimeRequest
        | KeptRequest
        | GuardRequest
        | ForgetRequest
    ) = Field(discriminator="kind")


class CandidateReply(Message):
    reply: (
        Fault | Entered | Loaded | Prepared | RunDone | MemoryReply | TimeReply | KeptDone | GuardDone | Done
    ) = Field(discriminator="kind")
