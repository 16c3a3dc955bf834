"""A model that replays a script: no network, no key, the same answers every time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pass_agent.errors import QueryFailed
from pass_agent.model.base import Tool
from pass_agent.model.client import read_usage
from pass_agent.model.parse import assistant_message, read_reply
from pass_agent.model.prices import Price
from pass_agent.model.script import read_script
from pass_agent.records import Message, Reply

PREFIX = "scripted:"


class ScriptedModel:
    """Replays the turns that the script has for `task`; faults are the server's and are skipped here."""

    def __init__(self, path: Path, task: str, price: Price | None = None):
        self.name = f"{PREFIX}{path.name}"
        self.turns = read_script(path).turns(task)
        self.price = price

    def message(self, reply: Reply) -> Message:
        return assistant_message(reply)

    def query(self, messages: Sequence[Message], tools: Sequence[Tool], answered: int) -> Reply:
        if answered >= len(self.turns):
            raise QueryFailed(f"the script ends after {len(self.turns)} turns")
        turn = self.turns[answered]
        choice = turn.choice(answered)
        answer = {"choices": [choice], "usage": usage_of(turn.usage)}
        return read_reply(choice, read_usage(answer, messages, self.price), 0.0, 1)


def usage_of(usage: dict[str, int] | None) -> dict[str, int] | None:
    """A script's usage in the protocol's words."""
    if usage is None:
        return None
    prompt, completion = usage.get("prompt", 0), usage.get("completion", 0)
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
