"""Hashes of the published formats: graph_hash.txt and the names of sample directories."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def sample_hash(uids: Iterable[str]) -> str:
    """The hash of a sample: sha256 over its graphs' uids, sorted, one per line."""
    return _sha256("\n".join(sorted(uids)))


def sample_folder(uids: Iterable[str]) -> str:
    """Where a sample with these graphs lives below its category: `<xx>/<yy>/<hash>`."""
    digest = sample_hash(uids)
    return f"{digest[:2]}/{digest[2:4]}/{digest}"


def hash_of_source(code: str) -> str:
    """graph_hash of a float32 graph: sha256 over the text of model.py."""
    return _sha256(code)


def hash_of_printout(code: str) -> str:
    """graph_hash of a float16 or bfloat16 graph: sha256 over `gm.code`.

    `code` is the text of model.py; gm.code is what follows the line of the class, de-indented by four spaces.
    """
    lines = code.splitlines(keepends=True)
    header = next((i for i, line in enumerate(lines) if line.startswith("class GraphModule")), -1)
    return _sha256("".join(line.removeprefix("    ") for line in lines[header + 1 :]))
