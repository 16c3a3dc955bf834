"""From stores to rows: what the report needs of every graph, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pass_bench.compilers import COMPILERS
from pass_bench.results.records import Comparison, EnvironmentRecord, GraphResult
from pass_bench.results.store import StoredResult, StoreEntry, iter_store
from pass_bench.score.outcome import Outcome, outcome_of

GraphName = tuple[str, str, int]
BASELINES = frozenset(name for name, compiler in COMPILERS.items() if not compiler.uses_passes)


@dataclass(frozen=True, slots=True)
class Interval:
    """A speedup with its 95 % interval."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Row:
    """One graph of one submission. Times in microseconds; `detail` is what `keep` made of the full result."""

    sample: str
    graph: str
    index: int
    dtype: str
    outcome: Outcome
    reason: str
    e2e: Interval | None
    eager_us: float | None
    compiled_us: float | None
    unrewritten: float | None
    noisy: bool
    weak: bool
    interpreted: bool
    measured_at: str
    environment: str
    detail: str = ""

    @property
    def name(self) -> GraphName:
        """What the graph is called in every submission."""
        return self.sample, self.graph, self.index

    @property
    def verdict(self) -> str:
        """The verdict's value."""
        return self.outcome.verdict.value

    @property
    def correct(self) -> bool:
        """Whether the graph is right at the baseline tolerance."""
        return self.outcome.correct_at(-5)

    @property
    def speed(self) -> Interval | None:
        """The speedup, where the graph is correct and its time is a speed."""
        return self.e2e if self.correct and self.outcome.speedup is not None else None


@dataclass(slots=True)
class Submission:
    """The rows of one pass set under one compiler, in order of measurement."""

    label: str
    compiler: str
    source: str
    rows: list[Row] = field(default_factory=list)
    environments: dict[str, EnvironmentRecord] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Label and compiler."""
        return f"{self.label} · {self.compiler}"

    def samples(self) -> dict[str, list[Row]]:
        """The rows by sample."""
        grouped: dict[str, list[Row]] = {}
        for row in self.rows:
            grouped.setdefault(row.sample, []).append(row)
        return grouped


def load_submissions(
    paths: Sequence[Path],
    say: Callable[[str], None] = lambda _: None,
    keep: Callable[[StoredResult], str] = lambda _: "",
) -> list[Submission]:
    """Read stores one record at a time; of several results under one key the last counts.

    A submission is what has the same name and compiler within one store; a store without names gives its own.
    `keep` turns a result into whatever the caller wants to have of it later.
    """
    submissions: list[Submission] = []
    labels: set[str] = set()
    for path in paths:
        here: dict[tuple[str, str], dict[str, Row]] = {}
        environments: dict[str, EnvironmentRecord] = {}
        for record in iter_store(path, say):
            if not isinstance(record, StoreEntry):
                environments[record[0]] = record[1]
                continue
            stored = record.stored
            group = stored.submission or _store_label(path), stored.result.compiler
            here.setdefault(group, {})[record.key] = _row(stored, keep(stored))
        renamed: dict[str, str] = {}
        for (label, compiler), rows in here.items():
            unique = renamed.setdefault(label, _unused(label, labels))
            used = {row.environment for row in rows.values()}
            submissions.append(
                Submission(
                    unique,
                    compiler,
                    str(path),
                    list(rows.values()),
                    {name: record for name, record in environments.items() if name in used},
                )
            )
        labels.update(renamed.values())
    return submissions


def _store_label(path: Path) -> str:
    return path.stem if path.stem != "results" else path.resolve().parent.name


def _unused(label: str, labels: Iterable[str]) -> str:
    taken, number, name = set(labels), 2, label
    while name in taken:
        name, number = f"{label} ({number})", number + 1
    return name


def _row(stored: StoredResult, detail: str) -> Row:
    result = stored.result
    return Row(
        sample=sample_name(result.sample),
        graph=result.graph,
        index=result.index,
        dtype=_dtype(result),
        outcome=outcome_of(result),
        reason=result.reason,
        e2e=_interval(result.e2e),
        eager_us=None if result.e2e is None else result.e2e.eager.median_us,
        compiled_us=None if result.e2e is None else result.e2e.compiled.median_us,
        unrewritten=None if result.unrewritten is None else result.unrewritten.speedup,
        noisy=result.e2e is not None and result.e2e.noisy,
        weak=result.weak,
        interpreted=result.interpreted,
        measured_at=stored.measured_at,
        environment=stored.environment,
        detail=detail,
    )


def _interval(comparison: Comparison | None) -> Interval | None:
    return None if comparison is None else Interval(comparison.speedup, comparison.low, comparison.high)


def _dtype(result: GraphResult) -> str:
    for regime in result.regimes:
        for tensor in regime.tensors:
            if "float" in tensor.dtype:
                return tensor.dtype
    return next((t.dtype for regime in result.regimes for t in regime.tensors), "")


def sample_name(path: str) -> str:
    """A sample's name wherever it lies: what follows the last folder called `samples`, else its last part."""
    parts = PurePosixPath(path).parts
    if "samples" in parts:
        after = len(parts) - parts[::-1].index("samples")
        if after < len(parts):
            return "/".join(parts[after:])
    return path if not path.startswith("/") else parts[-1]
