"""The files a run leaves for others: `<exp>.jsonl`, `<exp>_completions.jsonl`. One line an attempt."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from pass_agent.errors import BadInput
from pass_agent.records import Message

Key = tuple[str, int]  # instance_id, attempt


class Output:
    """Appends finished attempts; an attempt that is there already is replaced, never doubled."""

    def __init__(self, folder: Path, exp_name: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.trajectories = folder / f"{exp_name}.jsonl"
        self.completions = folder / f"{exp_name}_completions.jsonl"
        self.lock = threading.Lock()
        self.keys = {path: _mend(path) for path in (self.trajectories, self.completions)}

    @property
    def written(self) -> set[Key]:
        """The attempts that are in both files."""
        return self.keys[self.trajectories] & self.keys[self.completions]

    def add(self, key: Key, trajectory: dict[str, Any], messages: list[Message]) -> None:
        """Write one attempt; both files are flushed when this returns."""
        instance, attempt = key
        completion = {
            "sample_dir": trajectory["ds"]["sample_dir"],
            "messages": messages,
            "tools": trajectory["agent_args"]["tools"],
            "instance_id": instance,
            "attempt": attempt,
        }
        with self.lock:
            for path, value in ((self.trajectories, trajectory), (self.completions, completion)):
                if key in self.keys[path]:
                    _drop(path, key)
                _append(path, value)
                self.keys[path].add(key)


def _key(value: dict[str, Any]) -> Key:
    if "ds" in value:
        return value["ds"]["instance_id"], value["agent_args"]["attempt"]
    return value["instance_id"], value["attempt"]


def _append(path: Path, value: dict[str, Any]) -> None:
    data = memoryview((json.dumps(value, ensure_ascii=False) + "\n").encode("utf-8"))
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fdatasync(handle)
    finally:
        os.close(handle)


def _mend(path: Path) -> set[Key]:
    """The attempts in a file, after a torn last line was cut off; holds one line at a time in memory."""
    found: set[Key] = set()
    if not path.exists():
        return found
    whole = 0
    with path.open("rb") as source:
        for number, line in enumerate(source, 1):
            if not line.endswith(b"\n"):
                break
            try:
                found.add(_key(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise BadInput(f"not a line of ours: {error!r}", path=path, line=number) from error
            whole += len(line)
    if whole < path.stat().st_size:
        os.truncate(path, whole)
    return found


def _drop(path: Path, key: Key) -> None:
    """Remove an earlier line of the same attempt; the file is replaced as a whole."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with path.open("rb") as source, partial.open("wb") as target:
        for line in source:
            if _key(json.loads(line)) != key:
                target.write(line)
    partial.replace(path)
