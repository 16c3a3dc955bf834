"""Scripts of replies: what `--llm-name scripted:FILE` plays and the local server serves.

A script is JSON or YAML: a list of turns, or {"default": [turn...], "tasks": {"glob": [turn...]}} where the
globs match a task's instance_id. A turn is a text, or {"content", "reasoning", "calls": [{"name",
"arguments"}], "finish_reason", "usage": {"prompt", "completion"}, "faults": [fault...]}. `arguments` may be a
text, sent as it is, to play a model that writes broken JSON. Faults (for the server) come before the turn's
real answer, one each try: {"status": 429, "retry_after": 0}, {"hang": seconds}, {"body": "not json"},
{"drip": seconds}, {"disconnect": true}.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from pass_agent.errors import BadInput
from pass_agent.records import Record


class Fault(Record):
    """One bad answer of a scripted server."""

    status: int = 200
    retry_after: float | None = None
    body: str = ""
    hang: float = 0.0  # seconds in which the connection stays open and silent, half an answer sent
    drip: float = 0.0  # seconds over which blanks trickle in
    disconnect: bool = False


class ScriptedCall(Record):
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class Turn(Record):
    """One scripted reply."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str = ""
    usage: dict[str, int] | None = None
    faults: tuple[Fault, ...] = ()
    delay: float = 0.0  # seconds before the answer

    def choice(self, at: int) -> dict[str, Any]:
        """The turn as an entry of `choices`."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{at}_{number}",
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": call.arguments
                        if isinstance(call.arguments, str)
                        else json.dumps(call.arguments),
                    },
                }
                for number, call in enumerate(self.calls)
            ]
        finish = self.finish_reason or ("tool_calls" if self.calls else "stop")
        return {"index": 0, "message": message, "finish_reason": finish}


class Script(Record):
    """Turns for every task: those of the first glob that matches, else the default ones."""

    default: tuple[Turn, ...] = ()
    tasks: dict[str, tuple[Turn, ...]] = Field(default_factory=dict)

    def turns(self, task: str) -> tuple[Turn, ...]:
        for pattern, turns in self.tasks.items():
            if fnmatch.fnmatchcase(task, pattern):
                return turns
        return self.default


def read_script(path: Path) -> Script:
    """Read a script; raises BadInput naming the first thing wrong with it."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"no such script ({error.strerror})", path=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"not JSON or YAML: {str(error).splitlines()[0]}", path=path) from error
    if isinstance(value, list):
        value = {"default": value}
    if not isinstance(value, Mapping):
        raise BadInput("a script is a list of turns or a mapping of them", path=path)
    try:
        tasks = value.get("tasks") or {}
        return Script.model_validate(
            {
                "default": _turns(value.get("default") or []),
                "tasks": {name: _turns(turns) for name, turns in tasks.items()},
            }
        )
    except (ValidationError, AttributeError, TypeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: {first['msg']}", path=path) from error


def _turns(turns: list[Any]) -> list[Any]:
    return [{"content": turn} if isinstance(turn, str) else turn for turn in turns]
