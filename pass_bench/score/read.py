"""Outcomes from whatever an evaluation left: a store of records or a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pass_bench.errors import BadInput
from pass_bench.results.log_reader import read_log
from pass_bench.results.store import read_store
from pass_bench.score.outcome import Outcome, outcome_of


@dataclass(frozen=True, slots=True)
class ScoredGraph:
    """A graph with its outcome; `group` is what it is scored together with, its sample and compiler."""

    group: str
    graph: str
    outcome: Outcome


def read_outcomes(path: Path | str, say: Callable[[str], None] = lambda _: None) -> list[ScoredGraph]:
    """The graphs of a store (`results.jsonl`) or of a reference-style log; BadInput if it is neither."""
    path = Path(path)
    if not path.exists():
        raise BadInput("no such file", path=path, expected="a store or a log")
    if path.is_file() and _is_store(path):
        return [
            ScoredGraph(f"{r.sample} [{r.compiler}]", r.graph, outcome_of(r))
            for r in read_store(path, say).results
        ]
    return [ScoredGraph(path.name, graph.path, graph.outcome) for graph in read_log(path)]


def _is_store(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8) == b'{"crc":"'
