"""Outcomes from a reference-style log."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pass_bench.data.source import read_text
from pass_bench.errors import BadInput
from pass_bench.results.verdict import Verdict
from pass_bench.score.outcome import Outcome, outcome
from pass_bench.score.tolerance import BASELINE_T, LEVELS, TOLERANT_DTYPES, tolerance_key

_START = re.compile(r"^(?P<prompt>.*?)\[Processing\] (?P<path>.*)$")
_TAGGED = re.compile(r"^\[(?P<tag>\w+)\](?:\[(?P<key>[^\]]*)\]:?)? ?(?P<value>.*)$")
_MATCHED = re.compile(r"Has Any pass matched\? (?:\[)?(True|False)")
_REASON = re.compile(r"\[Fail due to (?P<why>[\w ]+)")
_FLOATING = re.compile(r"b?float\d|complex\d")  # dtypes of tensors; the types of plain values have no digit
_EXACT_LEVEL = -99


@dataclass(frozen=True, slots=True)
class LoggedGraph:
    """One graph of a log: the path after [Processing] and what became of it."""

    path: str
    outcome: Outcome


@dataclass
class _Block:
    path: str
    dtypes: list[str] = field(default_factory=list)
    compiled_dtypes: list[str] = field(default_factory=list)
    correctness: dict[str, list[str]] = field(default_factory=dict)
    speedup: float | None = None
    status: str = ""
    verdict: str = ""
    dtype_match: bool = True
    why: str = ""
    matched: bool | None = None


def read_log(path: Path | str) -> list[LoggedGraph]:
    """The graphs of a log file, or of all `*.log` files of a folder, in order.

    Lines that do not start with the log's prompt, such as what a pass printed, are ignored, but for "Has Any
    pass matched?": inside a graph it speaks of that graph, after the last one of all. BadInput if there is no
    graph in it.
    """
    path = Path(path)
    files = sorted(path.glob("*.log")) if path.is_dir() else [path]
    graphs = [graph for file in files for graph in parse_log(read_log_text(file).splitlines())]
    if not graphs:
        raise BadInput("no graph in this log", path=path, expected="lines with [Processing]")
    return graphs


def read_log_text(path: Path) -> str:
    """The text of a log; bytes that are not UTF-8, which passes may print, are replaced."""
    return path.read_bytes().decode(errors="replace") if path.is_file() else read_text(path)


def parse_log(lines: Iterable[str]) -> list[LoggedGraph]:
    """The graphs of a log's lines."""
    blocks: list[_Block] = []
    prompt: str | None = None
    pending: bool | None = None
    for line in lines:
        start = _START.match(line)
        if start and (prompt is None or start["prompt"] == prompt):
            prompt = start["prompt"]
            blocks.append(_Block(start["path"].strip()))
            continue
        matched = _MATCHED.search(line)
        if matched:
            value = matched[1] == "True"
            if blocks and not blocks[-1].status:
                blocks[-1].matched = value
            else:
                pending = value
        elif blocks and prompt is not None and line.startswith(prompt):
            _take(blocks[-1], line[len(prompt) :])
    for block in blocks:
        if block.matched is None:
            block.matched = pending
    return [LoggedGraph(block.path, _outcome(block)) for block in blocks]


def _take(block: _Block, line: str) -> None:
    reason = _REASON.search(line)
    if reason:
        block.why = reason["why"].strip()
        return
    tagged = _TAGGED.match(line)
    if tagged is None:
        return
    tag, key, value = tagged["tag"], tagged["key"], tagged["value"].strip()
    if tag == "Datatype" and key == "eager":
        block.dtypes = value.split()
    elif tag == "Datatype" and key == "compiled":
        block.compiled_dtypes = value.split()
    elif tag == "DataType":
        block.dtype_match = value.endswith("match:True")
    elif tag == "Correctness" and key:
        block.correctness[key] = value.split()
    elif tag == "Speedup" and key == "e2e":
        block.speedup = _number(value)
    elif tag == "Result" and value.startswith("status:"):
        block.status = value.removeprefix("status:").strip()
    elif tag == "Result" and value.startswith("verdict:"):
        block.verdict = value.removeprefix("verdict:").strip()


def _outcome(block: _Block) -> Outcome:
    levels = [_level(block, i, dtype) for i, dtype in enumerate(block.dtypes)]
    known = [level for level in levels if level is not None]
    passes = max(known) if levels and len(known) == len(levels) else None
    nonfinite = any(level is None and _nonfinite(block, i) for i, level in enumerate(levels))
    return outcome(_verdict(block, passes), passes, block.speedup, nonfinite)


def _nonfinite(block: _Block, column: int) -> bool:
    """Whether the largest difference of a tensor is NaN or inf; "nan" beside a plain value says nothing."""
    values = block.correctness.get("max_diff", [])
    if column >= len(values) or not _FLOATING.match(block.dtypes[column]):
        return False
    try:
        return not math.isfinite(float(values[column]))
    except ValueError:
        return False


def _verdict(block: _Block, passes: int | None) -> Verdict:
    if block.verdict:
        try:
            return Verdict(block.verdict)
        except ValueError:
            return Verdict.RUNTIME_FAIL
    if block.matched is False:
        return Verdict.PASS_MISS
    if not block.dtype_match or (block.compiled_dtypes and block.compiled_dtypes != block.dtypes):
        return Verdict.TYPE_MISMATCH
    if block.status == "success":
        return Verdict.CORRECT if passes is not None and passes <= BASELINE_T else Verdict.ACCURACY
    why = block.why.lower()
    for word, verdict in (
        ("shape", Verdict.SHAPE_MISMATCH),
        ("type", Verdict.TYPE_MISMATCH),
        ("compil", Verdict.COMPILE_FAIL),
        ("eager", Verdict.EAGER_FAIL),
    ):
        if word in why:
            return verdict
    return Verdict.RUNTIME_FAIL


def _level(block: _Block, column: int, dtype: str) -> int | None:
    """The smallest t from which one output passes at every level on; exact dtypes go by equality."""
    if dtype not in TOLERANT_DTYPES:
        return _EXACT_LEVEL if _one(block.correctness.get("equal"), column) else None
    found = None
    for t in reversed(LEVELS):
        if not _one(block.correctness.get(tolerance_key(dtype, t)), column):
            break
        found = t
    return found


def _one(values: list[str] | None, column: int) -> bool:
    return values is not None and column < len(values) and values[column] == "1"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value > 0 and value != float("inf") else None
