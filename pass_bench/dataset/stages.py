"""How long the stages took: a line in a log beside the work data for every run of one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STAGES = ("extract", "decompose", "vary", "verify", "publish")


@dataclass(frozen=True, slots=True)
class StageTime:
    """All logged runs of a stage together: wall seconds, and what was done in them."""

    stage: str
    runs: int
    seconds: float
    done: int


@contextmanager
def timed(root: Path, stage: str) -> Iterator[list[int]]:
    """Log the wall time of a run of a stage, when it ends by itself. What it appends is summed as `done`."""
    started = time.monotonic()
    done: list[int] = []
    yield done
    line = {"stage": stage, "seconds": round(time.monotonic() - started, 1), "done": sum(done)}
    root.mkdir(parents=True, exist_ok=True)
    with _log(root).open("a") as file:
        file.write(json.dumps(line) + "\n")


def stage_times(root: Path) -> tuple[StageTime, ...]:
    """The stages that have runs in the log, in the order in which they follow each other."""
    path = _log(root)
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    found = []
    for stage in STAGES:
        own = [line for line in lines if line["stage"] == stage]
        if own:
            seconds = sum(line["seconds"] for line in own)
            found.append(StageTime(stage, len(own), round(seconds, 1), sum(line["done"] for line in own)))
    return tuple(found)


def _log(root: Path) -> Path:
    return root / "stages.jsonl"
