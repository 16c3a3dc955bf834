"""What providers do differently, in one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pass_agent.model.base import Tool
from pass_agent.records import Message, Record


class Quirk(Record):
    """How requests to one family of models differ from the plain protocol."""

    pattern: str  # searched in the lower-cased model name, then in the base URL
    cache_control: bool = False  # marks prompt prefixes to be cached
    reasoning_field: str = ""  # the field in which reasoning has to be passed back
    passed_back: tuple[str, ...] = ()  # further fields of a message that have to come back as they were
    call_fields: tuple[str, ...] = ()  # and of a tool call
    parallel_tool_calls: bool | None = None  # None: not sent
    max_tokens_field: str = "max_tokens"
    temperature: bool = True  # whether the parameter is accepted
    base_url: str = ""  # used where none is given


# First match wins. `parallel_tool_calls` is only sent where the endpoint knows it.
QUIRKS: tuple[Quirk, ...] = (
    Quirk(pattern=r"claude|anthropic", cache_control=True, base_url="https://api.anthropic.com/v1/"),
    Quirk(
        pattern=r"(^|/)(gpt-5|o[134])\b|(^|/)o[134]-",
        parallel_tool_calls=True,
        max_tokens_field="max_completion_tokens",
        temperature=False,
    ),
    Quirk(pattern=r"(^|/)gpt-", parallel_tool_calls=True, max_tokens_field="max_completion_tokens"),
    Quirk(pattern=r"deepseek-r1"),  # refuses reasoning that is passed back
    Quirk(pattern=r"deepseek|glm-4\.[5-9]|glm-[5-9]|kimi|minimax", reasoning_field="reasoning_content"),
    # A call's thought signature is in there; without it the next request is refused.
    Quirk(pattern=r"gemini|googleapis", call_fields=("extra_content",), passed_back=("extra_content",)),
    Quirk(pattern=r"openrouter\.ai", reasoning_field="reasoning", passed_back=("reasoning_details",)),
)
PLAIN = Quirk(pattern="")


def find_quirk(model: str, base_url: str = "") -> Quirk:
    """The table's first row that fits the model's name or, failing that, the endpoint."""
    for text in (model.lower(), base_url.lower()):
        for quirk in QUIRKS:
            if text and re.search(quirk.pattern, text):
                return quirk
    return PLAIN


def protocol_model(name: str) -> str:
    """The model's name as sent: a leading `openai/` or `anthropic/` only selects the protocol."""
    for prefix in ("openai/", "anthropic/"):
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def choose_key(name: str, openai: str, anthropic: str) -> str:
    """The key for a model: Anthropic's where the name asks for it, else the other; never one for the other's.

    A leading `openai/` asks for the other, whatever the model is called.
    """
    own = not name.startswith("openai/") and re.search(r"^anthropic/|^claude", name.lower())
    return (anthropic or openai) if own else openai


def request_body(
    quirk: Quirk,
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    temperature: float,
    max_tokens: int,
) -> dict[str, Any]:
    """The body of one chat-completions request."""
    body: dict[str, Any] = {"model": model, "messages": list(messages), quirk.max_tokens_field: max_tokens}
    if quirk.temperature:
        body["temperature"] = temperature
    if tools:
        body["tools"] = list(tools)
        if quirk.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = quirk.parallel_tool_calls
    if quirk.cache_control:
        body["messages"] = _mark_cached(messages)
    return body


def _mark_cached(messages: Sequence[Message]) -> list[Message]:
    """Mark the system message and the last user or tool message: two cache points, within all limits."""
    marked = [dict(message) for message in messages]
    last = max((at for at, m in enumerate(marked) if m["role"] in ("user", "tool")), default=0)
    for at in {0, last}:
        if marked and isinstance(marked[at].get("content"), str) and marked[at]["content"]:
            part = {"type": "text", "text": marked[at]["content"], "cache_control": {"type": "ephemeral"}}
            marked[at]["content"] = [part]
    return marked
