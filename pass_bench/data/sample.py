"""Sample directories and the manifests of their pass_dir."""

from __future__ import annotations

import json
from pathlib import Path

from pass_bench.data.records import GraphRef, Sample
from pass_bench.data.source import read_text
from pass_bench.errors import BadInput

MANIFEST = "sorted_output_pass_rule_names.json"
CONST_MANIFEST = "sorted_input_pass_rule_names.json"


def read_sample(path: Path | str) -> Sample:
    """Read a sample directory: its graph_list.txt, where every listed graph is, its pass_dir,
    const_pass_dir and uids.

    `graphs`, `pass_dir` and `pass_bench` may be links. Listed paths are relative to the sample directory and
    must exist. Raises BadInput for a missing or empty list and for a listed graph that is not there.
    """
    path = Path(path)
    if not path.is_dir():
        raise BadInput("no such sample directory", path=path, expected="a folder with a graph_list.txt")
    file = path / "graph_list.txt"
    graphs = []
    for number, line in enumerate(read_text(file).splitlines(), start=1):
        listed = line.strip()
        if not listed or listed.startswith("#"):
            continue
        graph = path / listed
        if "\0" in listed or not graph.is_dir():
            raise BadInput(f"no graph at {listed!r}", path=file, line=number, expected="a graph directory")
        if not (graph / "model.py").is_file():
            raise BadInput(f"no model.py in {listed}", path=file, line=number, expected="a graph directory")
        graphs.append(GraphRef(listed, graph))
    if not graphs:
        raise BadInput("lists no graph", path=file, expected="one graph path per line")
    const = path / "const_pass_dir"
    return Sample(
        path=path,
        graphs=tuple(graphs),
        pass_dir=path / "pass_dir",
        uids=_read_uids(path),
        const_pass_dir=const if const.is_dir() else None,
    )


def _read_uids(path: Path) -> tuple[str, ...] | None:
    file = path / "sample_uids.txt"
    if not file.exists():
        return None
    uids = tuple(uid.strip() for uid in read_text(file).split(",") if uid.strip())
    if not uids:
        raise BadInput("lists no uid", path=file, expected="uids, joined by commas")
    return uids


def read_manifest(pass_dir: Path | str, name: str = MANIFEST) -> tuple[str, ...]:
    """The stems of the passes of a pass_dir, in the order in which they apply.

    Raises BadInput if the manifest is missing, is not a list of names, names a pass twice or one that has no
    file. A name may not contain a path.
    """
    pass_dir = Path(pass_dir)
    file = pass_dir / name
    if not pass_dir.is_dir():
        raise BadInput("no such pass directory", path=pass_dir, expected=f"a folder with a {name}")
    expected = 'a JSON list of file stems, such as ["FusedAddNorm"]'
    try:
        names = json.loads(read_text(file))
    except json.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error.msg}", path=file, line=error.lineno, expected=expected) from None
    except (RecursionError, ValueError) as error:
        raise BadInput(f"not JSON: {error}", path=file, expected=expected) from None
    if not isinstance(names, list) or not all(isinstance(stem, str) for stem in names):
        raise BadInput("not a list of names", path=file, expected=expected)
    for stem in names:
        if not stem.isidentifier():
            raise BadInput(f"{stem!r} is not a file stem", path=file, expected=expected)
        if names.count(stem) > 1:
            raise BadInput(f"{stem} stands there twice", path=file, expected="every pass once")
        if not (pass_dir / f"{stem}.py").is_file():
            raise BadInput(f"names {stem}, but there is no {stem}.py", path=file, expected=f"{stem}.py")
    return tuple(names)


def read_const_names(pass_dir: Path, const_pass_dir: Path) -> tuple[str, ...]:
    """The stems of the passes of a const_pass_dir, in the order in which they apply, ahead of pass_dir's.

    In the order of a sorted_input_pass_rule_names.json (there or in pass_dir), else of its own manifest, else
    by name. Raises BadInput as `read_manifest` does.
    """
    for manifest in (const_pass_dir / CONST_MANIFEST, pass_dir / CONST_MANIFEST):
        if manifest.exists():
            return read_manifest(const_pass_dir, str(manifest.resolve()))
    if (const_pass_dir / MANIFEST).exists() or not const_pass_dir.is_dir():
        return read_manifest(const_pass_dir)
    return tuple(sorted(p.stem for p in const_pass_dir.glob("*.py") if not p.stem.startswith("_")))


def kept_const_names(pass_dir: Path, const_pass_dir: Path) -> tuple[str, ...]:
    """Those of `read_const_names` whose place no pass of the same name in pass_dir takes."""
    own = read_manifest(pass_dir)
    return tuple(stem for stem in read_const_names(pass_dir, const_pass_dir) if stem not in own)


def read_pass_names(pass_dir: Path, const_pass_dir: Path | None) -> tuple[str, ...]:
    """The stems of all passes that apply, in order: const ones first, each name once. Raises BadInput."""
    first = () if const_pass_dir is None else read_const_names(pass_dir, const_pass_dir)
    return tuple(dict.fromkeys((*first, *read_manifest(pass_dir))))
