"""What the agent reads from an evaluation's records.

Only the fields that feedback and search need, each with a default: the sample's own pass_bench may be of
another version. Unknown fields are ignored, missing ones read as "not measured".
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

UNSCORED = frozenset({"nothing_to_check", "unsupported_on_cpu", "infra"})


class Loose(BaseModel):
    """Base of what is read from another version's records."""

    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


class Timing(Loose):
    median_us: float = 0.0


class Compared(Loose):
    eager: Timing = Timing()
    compiled: Timing = Timing()
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    noisy: bool = False


class Worst(Loose):
    index: tuple[int, ...] = ()
    expected: float | str = ""
    actual: float | str = ""
    tolerance: float = 0.0


class Tensor(Loose):
    where: str = ""
    dtype: str = ""
    compiled_dtype: str = ""
    shape: tuple[int, ...] = ()
    passes_from: int | None = None
    max_diff: float | None = None
    nonfinite: bool = False
    worst: Worst | None = None


class RegimeOutcome(Loose):
    regime: str = ""
    passes_from: int | None = None
    tensors: tuple[Tensor, ...] = ()
    error: str = ""
    skipped: str = ""


class PassOutcome(Loose):
    name: str = ""
    matched: int = 0
    replaced: int = 0
    skipped: str = ""
    nearest_miss: str = ""


class Broken(Loose):
    rule: str = ""
    why: str = ""
    file: str = ""
    line: int | None = None


class GraphOutcome(Loose):
    """One graph of one evaluation, as far as the agent reads it."""

    graph: str = ""
    index: int = 0
    compiler: str = ""
    device: str = ""
    device_name: str = ""
    verdict: str
    reason: str = ""
    detail: str = ""
    violations: tuple[Broken, ...] = ()
    warnings: tuple[str, ...] = ()
    passes: tuple[PassOutcome, ...] = ()
    graph_breaks: int = 0
    regimes: tuple[RegimeOutcome, ...] = ()
    passes_from: int | None = None
    nonfinite: bool = False
    e2e: Compared | None = None
    device_time: Compared | None = None
    unrewritten: Compared | None = None
    interpreted: bool = False
    log_tail: str = ""

    @property
    def judged(self) -> bool:
        """Whether its outputs say anything about the passes."""
        return self.verdict not in UNSCORED

    @property
    def scored(self) -> bool:
        """Whether it enters the score: judged, and its time is a speed."""
        return self.judged and not self.interpreted

    @property
    def correct(self) -> bool:
        return self.verdict == "correct"


def read_results(text: str) -> tuple[GraphOutcome, ...]:
    """Read a results.jsonl; records nested in a store's lines too; a torn line is dropped."""
    found: dict[tuple[int, str], GraphOutcome] = {}
    for line in text.splitlines():
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        for wrapper in ("data", "record", "result"):
            if isinstance(value, dict) and isinstance(value.get(wrapper), dict):
                value = value[wrapper]
        try:
            outcome = GraphOutcome.model_validate(value)
        except ValidationError:
            continue
        found[outcome.index, outcome.graph] = outcome
    return tuple(found[key] for key in sorted(found))


def read_score(text: str) -> float | None:
    """Read aggregated_score.json; None where it holds no finite number."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    score = value.get("score") if isinstance(value, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        return None
    return float(score) if 0 <= float(score) < float("inf") else None


def all_correct(graphs: Iterable[GraphOutcome]) -> bool:
    """Whether there is a graph with something to check, and every such graph is correct at its baseline."""
    checked = [graph for graph in graphs if graph.verdict != "nothing_to_check"]
    return bool(checked) and all(graph.correct for graph in checked)


def project_root(start: Path) -> Path | None:
    """The nearest folder above `start` that holds a `pass_bench` package and `samples`."""
    for folder in (start, *start.parents):
        if (folder / "pass_bench" / "__init__.py").is_file() and (folder / "samples").is_dir():
            return folder
    return None
