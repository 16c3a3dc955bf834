"""The stages from model records to published files; each reads what the one before left on disk."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.group import EVAL_SAMPLES, Split, group, split
from pass_bench.dataset.lower import Lowered, lower_all
from pass_bench.dataset.plan import Budget, PlannedGraph, plan
from pass_bench.dataset.publish import rows_of, write_lists, write_shards
from pass_bench.dataset.store import ModelRecord, read_record
from pass_bench.dataset.verify import read_verified, reason_not_to_evaluate, verify
from pass_bench.errors import BadInput

Report = Callable[[str], None]
_EVALUATED = "evaluated.jsonl"


def load_records(root: Path) -> list[ModelRecord]:
    """The records below `root`, sorted by key; BadInput if there are none."""
    records = [read_record(path) for path in sorted((root / "models").rglob("*.json.zst"))]
    if not records:
        raise BadInput("no model records", path=root / "models", expected="passbench dataset extract first")
    return sorted(records, key=lambda record: record.key)


def decompose(root: Path, *, seconds: float | None = None, report: Report = print) -> Lowered:
    """Lower the models that tell something new, for at most `seconds`; what is done is kept."""
    end = None if seconds is None else time.monotonic() + seconds
    return lower_all(
        load_records(root), root, deadline=lambda: end is not None and time.monotonic() > end, report=report
    )


def vary(root: Path, budget: Budget | None = None, *, report: Report = print) -> int:
    """Write the plan: every graph in every type and size, none twice. Returns how many."""
    records = load_records(root)
    lowered = lower_all(records, root, deadline=lambda: True, report=report)
    count = _save(plan(records, lowered, budget), root / "plan.jsonl.zst")
    report(f"{count} graphs planned from {len(records)} records, {len(lowered)} of them lowered")
    return count


def check(
    root: Path, *, count: int = EVAL_SAMPLES, report: Report = print, done: list[int] | None = None
) -> Counter[str]:
    """Verify the planned graphs that were not verified yet; returns the reasons of those dropped, counted.

    Skeletons come in an order of their hashes, each complete, so that a part of the work is a fair sample.
    Then the graphs of the `count` evaluation samples per category run on random inputs, too; where some have
    to go, others are chosen, until all do. How many were verified now is appended to `done`.
    """
    graphs = sorted(load_plan(root), key=_by_skeleton)
    before = len(read_verified(root / "verified.jsonl"))
    found = verify(graphs, root / "verified.jsonl", report=report)
    if done is not None:
        done.append(len(found) - before)
    while any(found[graph.uid] is None for graph in graphs):
        groups = [one for members in chosen(root, count=count).evaluation.values() for one in members]
        candidates = [graph for one in groups for graph in one.graphs]
        known = read_verified(root / _EVALUATED)
        if all(graph.uid in known for graph in candidates):
            break
        verify(candidates, root / _EVALUATED, reason=reason_not_to_evaluate, report=report)
    return dropped(root)


def _by_skeleton(graph: PlannedGraph) -> tuple[str, str, int, int, str]:
    return graph.skeleton, graph.model, graph.start, graph.dim, graph.dtype


def chosen(root: Path, *, count: int = EVAL_SAMPLES) -> Split:
    """Group what was verified into samples and split them by use."""
    good = verified(root)
    if not good:
        raise BadInput("no verified graph", path=root, expected="passbench dataset verify first")
    return split(group(good), count)


def verified(root: Path) -> list[PlannedGraph]:
    """The planned graphs that passed, in order."""
    found, on_random = read_verified(root / "verified.jsonl"), read_verified(root / _EVALUATED)
    return [g for g in load_plan(root) if found.get(g.uid, "") is None and on_random.get(g.uid) is None]


def dropped(root: Path) -> Counter[str]:
    """Why planned graphs were dropped, counted."""
    planned = {graph.uid for graph in load_plan(root)}
    found = {**read_verified(root / "verified.jsonl")}
    found |= {uid: why for uid, why in read_verified(root / _EVALUATED).items() if why is not None}
    return Counter(why for uid, why in found.items() if why is not None and uid in planned)


def publish(
    root: Path, shards: Path, lists: Path, *, count: int = EVAL_SAMPLES, report: Report = print
) -> int:
    """Write shards and lists; returns the number of graphs."""
    parts = chosen(root, count=count)
    rows = list(rows_of(parts))
    paths = write_shards(rows, shards)
    write_lists(parts, lists)
    size = sum(path.stat().st_size for path in paths)
    report(f"{len(rows)} graphs in {len(paths)} shards of {size / 1e6:.1f} MB")
    return len(rows)


def _save(graphs: Iterable[PlannedGraph], path: Path) -> int:
    import zstandard

    scratch = path.with_suffix(".part")
    count = 0
    with scratch.open("wb") as file, zstandard.ZstdCompressor(level=3).stream_writer(file) as stream:
        for graph in graphs:
            stream.write((json.dumps(asdict(graph)) + "\n").encode())
            count += 1
    scratch.replace(path)
    return count


def load_plan(root: Path) -> Iterator[PlannedGraph]:
    """The planned graphs in order; BadInput if there is no plan."""
    import zstandard

    path = root / "plan.jsonl.zst"
    if not path.exists():
        raise BadInput("no plan", path=path, expected="passbench dataset vary first")
    with path.open("rb") as file:
        reader = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), encoding="utf-8")
        for line in reader:
            yield _planned(json.loads(line))


def _planned(values: dict[str, Any]) -> PlannedGraph:
    metas = tuple(
        TensorMeta(
            **{
                **meta,
                "shape": tuple(meta["shape"]),
                "data": None if meta["data"] is None else tuple(meta["data"]),
            }
        )
        for meta in values["metas"]
    )
    return PlannedGraph(**{**values, "metas": metas, "operators": tuple(values["operators"])})
