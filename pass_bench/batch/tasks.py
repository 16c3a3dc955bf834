"""From a list of samples to the graphs that are to be measured; no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data import Sample, read_graph, read_sample
from pass_bench.data.lists import read_sample_list
from pass_bench.data.sample import MANIFEST
from pass_bench.errors import BadInput
from pass_bench.results.keys import graph_id, pass_set_id


@dataclass(frozen=True, slots=True)
class SampleTask:
    """One sample of the list and the passes to apply to it.

    `name` is the path as listed. `pass_dir` is None where a submission has nothing for the sample.
    """

    name: str
    sample: Sample
    pass_dir: Path | None


@dataclass(frozen=True, slots=True)
class GraphTask:
    """One graph under one compiler; `graph_key` and `pass_key` are content hashes."""

    owner: SampleTask
    index: int
    compiler: str
    graph_key: str
    pass_key: str

    @property
    def listed(self) -> str:
        """The graph as the sample lists it."""
        return self.owner.sample.graphs[self.index].listed


def find_samples(targets: Sequence[Path], root: Path | None = None) -> list[tuple[str, Path]]:
    """Return (name, directory) of every sample that list files, sample directories or folders of them name.

    Listed paths are looked for below `root`, else below the current directory, the list's folder and the
    folders above it. Raises BadInput.
    """
    found: dict[str, Path] = {}
    for target in targets:
        for name, path in _expand(target, root):
            found.setdefault(name, path)
    if not found:
        raise BadInput("no sample in it", path=targets[0] if targets else None, expected="samples or a list")
    return list(found.items())


def _expand(target: Path, root: Path | None) -> Iterable[tuple[str, Path]]:
    if target.is_dir():
        if (target / "graph_list.txt").is_file():
            return [(str(target), target)]
        lists = sorted(path.parent for path in target.rglob("graph_list.txt"))
        if not lists:
            raise BadInput("no sample below it", path=target, expected="folders with a graph_list.txt")
        return [(str(path), path) for path in lists]
    if not target.is_file():
        raise BadInput(
            "no such list or directory", path=target, expected="a .txt or .csv of samples, or a folder"
        )
    names = read_sample_list(target)
    places = [root] if root is not None else [Path.cwd(), *target.absolute().parents]
    base = next((place for place in places if names and (place / names[0]).is_dir()), places[0])
    result = []
    for name in names:
        path = base / name
        if not path.is_dir():
            raise BadInput(f"no sample at {name!r} below {base}", path=target, expected="sample directories")
        result.append((name, path))
    return result


def submission_pass_dir(passes: Path, name: str, sample: Path) -> Path | None:
    """Return the folder with the passes for one sample in a tree of them, or None.

    The tree mirrors the samples: `<passes>/<name>/pass_dir` or `<passes>/<name>`, where name is the listed
    path or any of its tails, longest first.
    """
    parts = [part for part in Path(name).parts if part not in ("/", ".", "..")]
    for start in range(len(parts)):
        place = passes.joinpath(*parts[start:])
        for folder in (place / "pass_dir", place):
            if (folder / MANIFEST).is_file():
                return folder
    return None


def sample_tasks(targets: Sequence[Path], root: Path | None, passes: Path | None) -> list[SampleTask]:
    """Read every sample of the lists, and find its passes. Raises BadInput before anything runs."""
    if passes is not None and not passes.is_dir():
        raise BadInput(
            "no such folder of passes", path=passes, expected="a tree of pass_dirs, one per sample"
        )
    tasks = []
    for name, path in find_samples(targets, root):
        sample = read_sample(path)
        for reference in sample.graphs:
            read_graph(reference.path)
        if passes is not None:
            pass_dir = submission_pass_dir(passes, name, path)
        else:
            pass_dir = sample.pass_dir if (sample.pass_dir / MANIFEST).is_file() else None
        tasks.append(SampleTask(name, sample, pass_dir))
    return tasks


def parse_shard(text: str) -> tuple[int, int]:
    """Return (i, n) of "i/n", i from 1 to n. Raises BadInput."""
    first, slash, second = text.partition("/")
    if slash and first.isdigit() and second.isdigit() and 1 <= int(first) <= int(second):
        return int(first), int(second)
    raise BadInput(f"--shard {text}", expected="i/n with 1 <= i <= n, such as 2/4")


def graph_tasks(
    samples: Sequence[SampleTask],
    compilers: Sequence[tuple[str, bool]],
    limit: int | None = None,
    shard: tuple[int, int] = (1, 1),
) -> list[GraphTask]:
    """Return the graphs to measure, sample after sample: kernels compiled for one variant serve the next.

    `compilers` are (name, uses passes). `limit` counts samples and comes before `shard`, which deals samples
    out in turn.
    """
    chosen = samples[:limit] if limit is not None else samples
    tasks = []
    for task in chosen[shard[0] - 1 :: shard[1]]:
        pass_key = pass_set_id(task.pass_dir, task.sample.const_pass_dir)
        for index, reference in enumerate(task.sample.graphs):
            key = graph_id(reference.path)
            for compiler, uses_passes in compilers:
                tasks.append(GraphTask(task, index, compiler, key, pass_key if uses_passes else ""))
    return tasks
