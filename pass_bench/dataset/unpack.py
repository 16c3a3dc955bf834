"""From shards to sample directories, and from other people's sample directories to ours."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pass_bench.data import read_graph, read_sample
from pass_bench.data.lists import read_sample_list
from pass_bench.dataset.publish import FOLDER, read_rows
from pass_bench.errors import BadInput, HarnessFailure

_FILES = {
    "model.py": "model_py",
    "weight_meta.py": "weight_meta_py",
    "input_tensor_constraints.py": "constraints_py",
    "graph_net.json": "graph_net_json",
    "graph_hash.txt": "graph_hash",
    "subgraph_sources.json": "subgraph_sources_json",
}


def unpack(shards: Path, project: Path, wanted: Iterable[str] | None = None) -> int:
    """Write the samples named by `wanted` (paths as in sample lists; all if None) below a project folder.

    Graphs go to graphs/passnet_subgraphs/, samples with links to them to samples/passnet_subgraphs/. What is
    there already is left as it is. Returns how many samples were written; BadInput for a name that no shard
    has.
    """
    names = None if wanted is None else {_sample_name(name) for name in wanted}
    if not any(shards.glob("*.parquet")):
        raise BadInput("no shards", path=shards, expected="*.parquet files")
    samples: dict[str, list[dict[str, Any]]] = {}
    for row in read_rows(shards):
        if names is None or row["sample"] in names:
            samples.setdefault(row["sample"], []).append(row)
    missing = sorted((names or set()) - set(samples))
    if missing:
        raise BadInput(f"no sample {missing[0]} in the shards", path=shards)
    written = 0
    for sample, rows in sorted(samples.items()):
        for row in rows:
            _write_graph(project / "graphs" / FOLDER / row["path"], row)
        written += _write_sample(project, sample, rows)
    return written


def _sample_name(name: str) -> str:
    return name.strip().rstrip("/").removeprefix("./").removeprefix(f"samples/{FOLDER}/")


def wanted_by(lists: Sequence[Path]) -> list[str]:
    """The samples of several sample lists, in order, each once."""
    return list(dict.fromkeys(name for path in lists for name in read_sample_list(path)))


def _write_graph(folder: Path, row: Mapping[str, Any]) -> None:
    if (folder / "model.py").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, column in _FILES.items():
        (folder / name).write_text(row[column], encoding="utf-8")
    (folder / "input_meta.py").write_text("", encoding="utf-8")


def _write_sample(project: Path, sample: str, rows: Sequence[Mapping[str, Any]]) -> int:
    folder = project / "samples" / FOLDER / sample
    if (folder / "graph_list.txt").exists():
        return 0
    (folder / "pass_dir").mkdir(parents=True, exist_ok=True)
    (folder / "pass_dir" / ".ignore").write_text("")
    up = "/".join([".."] * len(folder.relative_to(project).parts))
    links = {"entry.sh": "entry_scripts/entry.sh", "graphs": "graphs", "pass_bench": "pass_bench"}
    for name, target in links.items():
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{up}/{target}")
    uids = ",".join(sorted(row["uid"] for row in rows))
    (folder / "sample_uids.txt").write_text(uids)
    listed = "".join(f"graphs/{FOLDER}/{row['path']}\n" for row in rows)
    scratch = folder / "graph_list.part"
    scratch.write_text(listed)
    scratch.replace(folder / "graph_list.txt")
    return 1


def materialize(sample: Path, out: Path | None = None) -> Path:
    """Turn the links of a sample directory into copies, so that it works in a container alone.

    `graphs` becomes a folder with only the sample's graphs. With `out`, a copy is made there and the sample
    stays as it is. Returns the folder; BadInput where it is no sample.
    """
    found = read_sample(sample)
    target = sample if out is None else out
    if out is not None:
        if out.exists() and any(out.iterdir()):
            raise BadInput("is not empty", path=out, expected="a new folder")
        out.mkdir(parents=True, exist_ok=True)
    scratch = target.parent / f".{target.name}.materializing"
    if scratch.exists():
        shutil.rmtree(scratch)
    scratch.mkdir(parents=True)
    try:
        for graph in found.graphs:
            place = scratch / graph.listed
            if not place.exists():
                shutil.copytree(graph.path, place, symlinks=False)
        for entry in sorted(sample.iterdir()):
            if entry.name == "graphs":
                continue
            if entry.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
                shutil.copytree(entry, scratch / entry.name, symlinks=False, ignore=ignored)
            else:
                shutil.copy2(entry, scratch / entry.name)
        for entry in sorted(scratch.iterdir()):
            place = target / entry.name
            if place.is_symlink() or place.is_file():
                place.unlink()
            elif place.is_dir():
                shutil.rmtree(place)
            entry.rename(place)
    except OSError as error:
        raise HarnessFailure(f"{target}: cannot be copied: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def import_published(source: Path, project: Path) -> int:
    """Take over a local copy of the published layout: graphs/, samples/ and the lists beside them.

    Samples keep their place; their links are made anew where they do not lead anywhere. Every graph of every
    sample must be readable: BadInput names the first that is not, before anything is written. Files that are
    there already are left. Returns the number of samples.
    """
    if not (source / "samples").is_dir() or not (source / "graphs").is_dir():
        raise BadInput(
            "not a copy of the published layout", path=source, expected="folders graphs and samples"
        )
    samples = [path.parent for path in sorted((source / "samples").rglob("graph_list.txt"))]
    if not samples:
        raise BadInput("holds no sample", path=source / "samples", expected="folders with a graph_list.txt")
    plans = [(sample, list(_graphs_of(sample, source))) for sample in samples]
    for folder in ("graph_lists", "sample_lists"):
        if (source / folder).is_dir():
            shutil.copytree(source / folder, project / folder, dirs_exist_ok=True, copy_function=_copy_new)
    for sample, graphs in plans:
        for listed, path in graphs:
            shutil.copytree(path, project / listed, dirs_exist_ok=True, copy_function=_copy_new)
        place = project / sample.relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for entry in sorted(sample.iterdir()):
            if entry.is_symlink() or entry.name in ("graphs", "pass_bench", "graph_net_bench"):
                continue
            if entry.is_dir():
                shutil.copytree(entry, place / entry.name, dirs_exist_ok=True, copy_function=_copy_new)
            else:
                _copy_new(str(entry), str(place / entry.name))
        package = "graph_net_bench" if (sample / "graph_net_bench").is_symlink() else "pass_bench"
        up = "/".join([".."] * len(place.relative_to(project).parts))
        targets = {"graphs": "graphs", package: "pass_bench", "entry.sh": "entry_scripts/entry.sh"}
        for name, target in targets.items():
            link = place / name
            if not link.exists() and not link.is_symlink():
                link.symlink_to(f"{up}/{target}")
        (place / "pass_dir").mkdir(exist_ok=True)
    return len(samples)


def _graphs_of(sample: Path, source: Path) -> Iterator[tuple[str, Path]]:
    for line in (sample / "graph_list.txt").read_text().splitlines():
        listed = line.strip()
        if not listed or listed.startswith("#"):
            continue
        inside = Path(os.path.normpath(listed))
        if inside.is_absolute() or ".." in inside.parts:
            raise BadInput(f"{listed!r} leaves the sample", path=sample / "graph_list.txt")
        path = sample / inside if (sample / inside).is_dir() else source / inside
        read_graph(path)
        yield str(inside), path


def _copy_new(source: str, target: str) -> str:
    if not Path(target).exists():
        shutil.copy2(source, target)
    return target


def pull(name: str, out: Path, revision: str | None = None) -> Path:
    """Download a dataset from the Hugging Face hub; HarnessFailure where that fails."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise HarnessFailure("huggingface_hub is not installed: pip install 'passnet[dataset]'") from error
    try:
        path = snapshot_download(name, repo_type="dataset", revision=revision, local_dir=str(out))
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise HarnessFailure(f"cannot download {name}: {first}") from error
    return Path(path)
