"""The interface of language models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pass_agent.records import Message, Reply

Tool = dict[str, Any]  # a function description of the chat-completions protocol


class Model(Protocol):
    """Answers a conversation. `name` is what trajectories record."""

    name: str

    def query(self, messages: Sequence[Message], tools: Sequence[Tool], answered: int) -> Reply:
        """Return the next reply; `answered` is how many replies this attempt has had.

        Raises QueryFailed where there is none, ContextOverflow where the conversation is too long.
        """

    def message(self, reply: Reply) -> Message:
        """The reply as it goes back to the model in the next query."""
