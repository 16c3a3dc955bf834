"""What extraction came to: configurations tried, captured and distinct, and why the others failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from pass_bench.dataset.canonical import uid_of
from pass_bench.dataset.cut import whole
from pass_bench.dataset.store import ModelRecord

_CAUSES = (
    (
        "larger than the limits allow",
        re.compile(r"too many parameters|parameters are more|more than \d+ values"),
    ),
    ("took more than its share of time or memory", re.compile(r"^killed|^died|^MemoryError")),
    ("no inputs were found that its forward takes", re.compile(r"no inputs fit")),
    ("the graph that was recorded computes something else", re.compile(r"computes something else")),
)
_OTHER = "the library refuses the configuration, or its forward fails"


@dataclass(frozen=True)
class Tally:
    """Counts over records; the mappings are keyed by library.

    `distinct` counts whole graphs that differ in code, shapes or types: two names may build the same network.
    `varied` counts captures that say how the graph follows batch or type. `seconds` is the children's wall
    time, entry by entry."""

    tried: Counter[str]
    captured: Counter[str]
    distinct: Counter[str]
    varied: Counter[str]
    tried_classes: Counter[str]
    classes: Counter[str]
    seconds: Counter[str]
    causes: Counter[str]
    reasons: Counter[str]

    @property
    def rows(self) -> list[tuple[str | int, ...]]:
        """Library, tried, captured, distinct, classes tried and captured; the last row holds the sums."""
        columns = (self.tried, self.captured, self.distinct, self.tried_classes, self.classes)
        rows: list[tuple[str | int, ...]] = [
            (name, *(column[name] for column in columns)) for name in sorted(self.tried)
        ]
        return [*rows, ("together", *(column.total() for column in columns))]


def tally(records: Iterable[ModelRecord]) -> Tally:
    """Count records."""
    tried: Counter[str] = Counter()
    captured: Counter[str] = Counter()
    varied: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    tried_classes: set[tuple[str, str]] = set()
    classes: set[tuple[str, str]] = set()
    graphs: dict[str, str] = {}
    for record in records:
        library = record.library
        tried[library] += 1
        tried_classes.add((library, record.class_name))
        seconds[library] += record.seconds  # type: ignore[assignment]
        if record.failure is not None:
            causes[cause_of(record.failure)] += 1
            reasons[kind_of_failure(record)] += 1
            continue
        captured[library] += 1
        classes.add((library, record.class_name))
        varied[library] += any(graph.batch or graph.sequence or graph.float16 for graph in record.graphs)
        graphs.setdefault("".join(uid_of(whole(graph.listing)) for graph in record.graphs), library)
    return Tally(
        tried,
        captured,
        Counter(graphs.values()),
        varied,
        Counter(library for library, _ in tried_classes),
        Counter(library for library, _ in classes),
        seconds,
        causes,
        reasons,
    )


def cause_of(failure: str) -> str:
    """The failure as one of a few causes."""
    return next((cause for cause, words in _CAUSES if words.search(failure)), _OTHER)


def kind_of_failure(record: ModelRecord) -> str:
    """The reason without names and numbers, so that like failures count together."""
    text = (record.failure or "").replace(record.name, "").split("[")[0]
    return re.sub(r"\d+", "N", text)[:90].strip(" :'\"").replace("BadInput: :", "BadInput:")
