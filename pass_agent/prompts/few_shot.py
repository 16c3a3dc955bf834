"""One example pass for the prompt: of the known samples, the one whose operators overlap most."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pass_agent.errors import BadInput
from pass_agent.evaluation.graph_source import overlap, read_graph_source
from pass_agent.evaluation.pass_set import MANIFEST, read_pass_set
from pass_agent.evaluation.sample import SampleSource, read_sample_source

TEXT_LIMIT = 16_000
SIMILAR = 0.1  # below this overlap an example says nothing about the task


@dataclass(frozen=True)
class Example:
    """A graph's code and a pass set for it; `graph_hashes` keep it from being shown for its own task."""

    name: str
    code: str
    files: dict[str, str]
    operators: Counter[str]
    graph_hashes: frozenset[str]

    @property
    def size(self) -> int:
        """Characters of all files."""
        return sum(map(len, self.files.values()))


@lru_cache(maxsize=8)
def read_examples(samples: Path) -> tuple[Example, ...]:
    """Every example sample below `samples` whose pass_dir holds passes."""
    found = []
    for entry in sorted(samples.glob("fusible_subgraphs/*/*/entry.sh")):
        try:
            example = _of_sample(entry.parent)
        except (BadInput, OSError):
            continue
        if example is not None:
            found.append(example)
    return tuple(found)


def choose_example(
    examples: tuple[Example, ...], operators: Counter[str], graph_hashes: tuple[str, ...], device: str
) -> tuple[Example | None, bool]:
    """The example for "cuda" or "cpu" with the largest overlap, and whether it is similar to the task.

    One that shares a graph with the task would give the answer away and is no candidate.
    The smallest one where nothing overlaps: its form is worth seeing. None where there is no example.
    """
    foreign = [example for example in examples if not example.graph_hashes & set(graph_hashes)]
    candidates = [example for example in foreign if json.loads(files_for(example, device)[MANIFEST])]
    if not candidates:
        return None, False
    best = max(candidates, key=lambda one: (overlap(one.operators, operators), -one.size, one.name))
    return best, overlap(best.operators, operators) >= SIMILAR


def files_for(example: Example, device: str) -> dict[str, str]:
    """The example's files without the passes that are for another device than "cuda" or "cpu"."""
    listed = [str(name) for name in json.loads(example.files[MANIFEST])]
    other = [name for name in listed if device not in _devices(example.files.get(f"{name}.py", ""))]
    kept = {name: text for name, text in example.files.items() if name.removesuffix(".py") not in other}
    return {**kept, MANIFEST: json.dumps([name for name in listed if name not in other]) + "\n"}


def _devices(text: str) -> tuple[str, ...]:
    """Where a pass is at home: as its `DEVICES` say, else on a GPU if it is written in Triton."""
    stated = re.search(r"^DEVICES\s*=\s*(.+)$", text, re.MULTILINE)
    if stated:
        return tuple(re.findall(r"[\"'](\w+)[\"']", stated.group(1)))
    return ("cuda",) if "import triton" in text else ("cuda", "cpu")


def _of_sample(folder: Path) -> Example | None:
    if not (folder / "pass_dir" / MANIFEST).is_file():
        return None
    sample: SampleSource = read_sample_source(folder)
    pass_set = read_pass_set(folder / "pass_dir")
    files = {name: content.decode("utf-8", "replace") for name, content in pass_set.files.items()}
    if not pass_set.names or sum(map(len, files.values())) > TEXT_LIMIT:
        return None
    listed, graph = sample.graphs[0]
    source = read_graph_source(graph, listed)
    hashes = frozenset(sample.graph_hashes)
    return Example(str(folder), source.code, files, source.operators, hashes)
