"""Long observations: head and tail for the model, the whole in a file that it can view."""

from __future__ import annotations

from pathlib import Path

from pass_agent.text import cap, clean

LIMIT = 12_000


def capped(text: str, folder: Path, name: str) -> str:
    """Return `text` if it is short; else its head and tail, with the whole kept as `folder/name`."""
    text = clean(text)
    if len(text) <= LIMIT:
        return text
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return cap(text, LIMIT, f"{folder.name}/{name}")
