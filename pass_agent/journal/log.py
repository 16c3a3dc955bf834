"""The journal of one attempt: JSON lines, appended and flushed; a torn last line is dropped on opening."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from pass_agent.errors import BadInput
from pass_agent.records import Ended, Message, Record, Reply, Step, Task

VERSION = 1


class Start(Record):
    """The first line: what the attempt is about, and all that it took to begin."""

    version: int = VERSION
    task: Task
    attempt: int
    sample: str  # absolute path of the sample directory
    sample_hash: str
    graph_hashes: tuple[str, ...]
    model: str
    problem_statement: str
    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    start_files: dict[str, str] = Field(default_factory=dict)  # pass_dir at the beginning
    environment: dict[str, Any] = Field(default_factory=dict)  # runtime and evaluation settings
    agent: dict[str, Any] = Field(default_factory=dict)  # model and search settings, no keys
    bandwidth: float = 0.0
    created: str = ""


@dataclass
class Told:
    """What a journal tells: whole steps, and a reply whose calls had not been answered yet."""

    start: Start | None = None
    steps: list[Step] = field(default_factory=list)
    pending: Reply | None = None
    ended: Ended | None = None

    @property
    def spent(self) -> tuple[float, int]:
        """USD and tokens of all replies."""
        replies = [step.reply for step in self.steps] + ([self.pending] if self.pending else [])
        tokens = sum(reply.usage.total + reply.usage.wasted for reply in replies)
        return sum(reply.usage.cost for reply in replies), tokens


class Journal:
    """Appends to one file; every line is on its way to the disk before the next thing happens."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = _whole_length(path)
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(self.handle, whole)
        os.lseek(self.handle, whole, os.SEEK_SET)

    def start(self, start: Start) -> None:
        self._append("start", start.model_dump(mode="json"))

    def reply(self, index: int, reply: Reply) -> None:
        """Recorded before its calls run: a paid answer is never asked for twice."""
        self._append("reply", {"index": index, "reply": reply.model_dump(mode="json")})

    def step(self, step: Step) -> None:
        self._append("step", step.model_dump(mode="json", exclude={"reply"}))

    def end(self, ended: Ended) -> None:
        self._append("end", ended.model_dump(mode="json"))

    def reopen(self) -> None:
        """Take an end back, so that the attempt goes on."""
        self._append("reopen", {})

    def close(self) -> None:
        os.close(self.handle)

    def _append(self, kind: str, value: dict[str, Any]) -> None:
        line = json.dumps({"type": kind, **value}, ensure_ascii=False) + "\n"
        data = memoryview(line.encode("utf-8"))
        while data:
            data = data[os.write(self.handle, data) :]
        os.fdatasync(self.handle)


def _whole_length(path: Path) -> int:
    """Bytes up to the end of the last whole line."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    return content.rfind(b"\n") + 1


def read_journal(path: Path) -> Told:
    """Read a journal; a last line without an end is dropped.

    Raises BadInput for a line that is no journal line, or one that comes at the wrong place.
    """
    told = Told()
    content = path.read_bytes() if path.exists() else b""
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            value = json.loads(line)
            _take(told, value.pop("type"), value)
        except (ValueError, KeyError, AttributeError, ValidationError, AssertionError) as error:
            raise BadInput(
                f"not a journal line: {str(error).splitlines()[0]}", path=path, line=number
            ) from error
    return told


def _take(told: Told, kind: str, value: dict[str, Any]) -> None:
    if kind == "start":
        if value.get("version") != VERSION:
            raise ValueError(f"version {value.get('version')}, this program reads {VERSION}")
        told.start = Start.model_validate(value)
    elif kind == "reply":
        if value["index"] != len(told.steps) or told.pending is not None:
            raise ValueError(f"reply {value['index']} after {len(told.steps)} steps")
        told.pending = Reply.model_validate(value["reply"])
    elif kind == "step":
        if told.pending is None or value["index"] != len(told.steps):
            raise ValueError(f"step {value.get('index')} without its reply")
        told.steps.append(Step.model_validate({**value, "reply": told.pending}))
        told.pending = None
    elif kind == "end":
        told.ended = Ended.model_validate(value)
    elif kind == "reopen":
        told.ended = None
    else:
        raise ValueError(f"unknown type {kind!r}")
