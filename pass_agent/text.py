"""Text that is safe to store and to send: valid UTF-8, and no longer than it should be."""

from __future__ import annotations

from typing import Any


def clean(text: str) -> str:
    """Return `text` with lone surrogates and NUL replaced, so that it can be encoded and sent."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\N{REPLACEMENT CHARACTER}")


def clean_json(value: Any) -> Any:
    """Return a JSON value with every string in it cleaned, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    return value


def cap(text: str, limit: int, where: str = "") -> str:
    """Keep the head and the tail of a text longer than `limit` characters, and say what is missing."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    left_out = len(text) - head - tail
    rest = f"; the whole text: {where}" if where else ""
    return f"{text[:head]}\n[... {left_out} characters left out{rest} ...]\n{text[-tail:]}"


def first_lines(text: str, count: int, width: int = 160) -> list[str]:
    """Return the first `count` lines that are not blank, each cut to `width` characters."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    return [line if len(line) <= width else line[: width - 1] + "…" for line in lines[:count]]
