"""Which graphs are kept for evaluation, so that no training example comes from them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from pass_agent.errors import BadInput
from pass_agent.evaluation.sample import read_sample_source


def eval_hashes(lists: tuple[Path, ...], root: Path) -> frozenset[str]:
    """Hashes of all graphs of the samples in the lists; raises BadInput for a sample that is not there.

    A list is a dataset (.jsonl), a .csv with a column sample_path, or a text with one sample path a line,
    relative to `root`.
    """
    hashes: set[str] = set()
    for path in lists:
        for listed in _samples(path):
            hashes.update(read_sample_source(root / listed).graph_hashes)
    return frozenset(hashes)


def _samples(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"no such list ({error.strerror})", path=path) from error
    try:
        if path.suffix == ".jsonl":
            return [json.loads(line)["sample_dir"] for line in text.splitlines() if line.strip()]
        if path.suffix == ".csv":
            return [row["sample_path"] for row in csv.DictReader(text.splitlines())]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"not a list of samples: {error}", path=path) from error
    return [line.strip() for line in text.splitlines() if line.strip()]
