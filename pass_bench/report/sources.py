"""The text of the graphs, for the drill-down: found on disk, each different text kept once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

_LONGEST = 30_000
_MOST_IN_ALL = 16_000_000


class SourceTexts:
    """Collects the model.py of graphs; a graph that is not found has no text.

    `texts` are in the order of their numbers. Beyond 16 MB of different texts no further ones are taken, and
    `left_out` counts them.
    """

    def __init__(self, roots: Sequence[Path]):
        self._roots = [root.resolve() for root in roots]
        self._by_path: dict[tuple[str, str], int | None] = {}
        self._by_hash: dict[bytes, int] = {}
        self._size = 0
        self.texts: list[str] = []
        self.left_out = 0

    def number_of(self, sample: str, graph: str) -> int | None:
        """The number of the text of a graph as its sample lists it, None if it is not there."""
        key = (sample, graph)
        if key not in self._by_path:
            self._by_path[key] = self._find(sample, graph)
        return self._by_path[key]

    def _find(self, sample: str, graph: str) -> int | None:
        for root in self._roots:
            for folder in (root / sample / graph, root / graph):
                try:
                    text = (folder / "model.py").read_text(encoding="utf-8", errors="replace")
                except OSError:
                    continue
                return self._number(text)
        return None

    def _number(self, text: str) -> int | None:
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]}\n# ... {len(text) - _LONGEST} more characters\n"
        digest = hashlib.sha256(text.encode()).digest()
        known = self._by_hash.get(digest)
        if known is not None:
            return known
        if self._size + len(text) > _MOST_IN_ALL:
            self.left_out += 1
            return None
        self._size += len(text)
        self._by_hash[digest] = len(self.texts)
        self.texts.append(text)
        return self._by_hash[digest]
