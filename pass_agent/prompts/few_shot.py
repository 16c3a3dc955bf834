"""One example pass for the prompt: of the known samples, the one whose operators overlap most."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pass_agent.errors import BadInput
from pass_agent.evaluation.graph_source import overlap, read_graph_source, read_operators
from pass_agent.evaluation.pass_set import MANIFEST, read_pass_set
from pass_agent.evaluation.sample import SampleSource, read_sample_source

SHIPPED = Path(__file__).parent / "examples"
TEXT_LIMIT = 16_000
LEAST = 0.1  # below this overlap an example says nothing about the task


@dataclass(frozen=True)
class Example:
    """A graph's code and a pass set for it; `graph_hashes` keep it from being shown for its own task."""

    name: str
    code: str
    files: dict[str, str]
    operators: Counter[str]
    graph_hashes: frozenset[str]


@lru_cache(maxsize=8)
def read_examples(samples: Path | None) -> tuple[Example, ...]:
    """The shipped examples, and every example sample below `samples` whose pass_dir holds passes."""
    found = (
        [_shipped(folder) for folder in sorted(SHIPPED.iterdir()) if folder.is_dir()]
        if SHIPPED.is_dir()
        else []
    )
    for entry in sorted(samples.glob("fusible_subgraphs/*/*/entry.sh")) if samples else ():
        try:
            example = _of_sample(entry.parent)
        except (BadInput, OSError):
            continue
        if example is not None:
            found.append(example)
    return tuple(found)


def choose_example(
    examples: tuple[Example, ...], operators: Counter[str], graph_hashes: tuple[str, ...]
) -> Example | None:
    """The example with the largest overlap that shares no graph with the task; None below 0.1."""
    candidates = [example for example in examples if not example.graph_hashes & set(graph_hashes)]
    scored = [(overlap(example.operators, operators), example) for example in candidates]
    if not scored:
        return None
    value, best = max(scored, key=lambda pair: (pair[0], pair[1].name))
    return best if value >= LEAST else None


def _shipped(folder: Path) -> Example:
    code = (folder / "graph.py").read_text(encoding="utf-8")
    files = _files(folder / "pass_dir")
    return Example(folder.name, code, files, read_operators(code), frozenset())


def _of_sample(folder: Path) -> Example | None:
    if not (folder / "pass_dir" / MANIFEST).is_file():
        return None
    sample: SampleSource = read_sample_source(folder)
    files = _files(folder / "pass_dir")
    if sum(map(len, files.values())) > TEXT_LIMIT:
        return None
    listed, graph = sample.graphs[0]
    source = read_graph_source(graph, listed)
    hashes = frozenset(sample.graph_hashes)
    return Example(str(folder), source.code, files, source.operators, hashes)


def _files(folder: Path) -> dict[str, str]:
    pass_set = read_pass_set(folder)
    return {name: content.decode("utf-8", "replace") for name, content in pass_set.files.items()}
