"""The pristine sample: what an evaluation is laid out from, and what the model may read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from pass_agent.errors import BadInput

PACKAGES = ("pass_bench", "graph_net_bench")
REPLACED = ("pass_dir", "graphs", *PACKAGES)


@dataclass(frozen=True)
class SampleSource:
    """A sample directory, read only; `graphs` are (path as listed, directory) in list order."""

    root: Path
    name: str
    graphs: tuple[tuple[str, Path], ...]

    def tree(self) -> dict[str, Path]:
        """Everything an evaluation needs apart from pass_dir: relative path -> file or directory."""
        found: dict[str, Path] = {}
        for entry in sorted(self.root.iterdir()):
            if entry.name not in REPLACED and not entry.name.startswith("."):
                found[entry.name] = entry.resolve()
        for listed, folder in self.graphs:
            found[listed] = folder
        for name in PACKAGES:
            if (self.root / name).exists():
                found[name] = (self.root / name).resolve()
        return found

    @cached_property
    def hash(self) -> str:
        """Hex sha256 over the graphs, their list, entry.sh and the package that evaluates them."""
        digest = hashlib.sha256()
        for name, path in sorted(self.tree().items()):
            digest.update(
                f"{name}={_package_hash(path) if name in PACKAGES else _tree_hash(path)}\n".encode()
            )
        return digest.hexdigest()[:32]

    @cached_property
    def graph_hashes(self) -> tuple[str, ...]:
        """What the graphs are known by: their graph_hash.txt where present, and the sha256 of model.py."""
        hashes: set[str] = set()
        for _, folder in self.graphs:
            hashes.add(hashlib.sha256((folder / "model.py").read_bytes()).hexdigest())
            recorded = folder / "graph_hash.txt"
            if recorded.is_file():
                hashes.add(recorded.read_text(encoding="utf-8", errors="replace").strip())
        return tuple(sorted(hashes - {""}))


def read_sample_source(folder: Path, name: str = "") -> SampleSource:
    """Read a sample directory.

    Raises BadInput without entry.sh, without a usable graph_list.txt, or where a listed graph is missing.
    """
    if not folder.is_dir():
        raise BadInput("no such sample directory", path=folder)
    if not (folder / "entry.sh").is_file():
        raise BadInput("a sample has an entry.sh", path=folder)
    listing = folder / "graph_list.txt"
    if not listing.is_file():
        raise BadInput("a sample has a graph_list.txt", path=folder)
    graphs: list[tuple[str, Path]] = []
    for number, line in enumerate(listing.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        listed = line.strip()
        if not listed:
            continue
        if listed.startswith("/") or ".." in Path(listed).parts:
            raise BadInput("a graph path stays within the sample", path=listing, line=number)
        graph = folder / listed
        if not (graph / "model.py").is_file():
            raise BadInput(f"the listed graph {listed} is not there", path=listing, line=number)
        graphs.append((Path(listed).as_posix(), graph.resolve()))
    if not graphs:
        raise BadInput("the graph list is empty", path=listing)
    return SampleSource(folder.resolve(), name or folder.name, tuple(graphs))


def _tree_hash(path: Path) -> str:
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    digest = hashlib.sha256()
    for file in files:
        if "__pycache__" not in file.parts:
            digest.update(f"{file.name}:{file.stat().st_size}:".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=16)
def _package_hash(path: Path) -> str:
    return _tree_hash(path)
