"""The archive of a submission: its passes, its results, and the hashes of both."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from pass_bench.batch.tasks import submission_pass_dir
from pass_bench.data.sample import MANIFEST as PASS_MANIFEST
from pass_bench.errors import BadInput
from pass_bench.results.records import Record
from pass_bench.results.store import read_store

MANIFEST = "submission.json"
STORE = "results.jsonl"
PASSES = "passes"
MAX_FILES = 100_000
MAX_BYTES = 1 << 30


class SubmissionManifest(Record):
    """What an archive says of itself: its name, the samples it has passes for, sha256 of every other file."""

    version: int = 1
    submission: str
    samples: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """An archive on disk, its hashes checked."""

    manifest: SubmissionManifest
    store: Path
    passes: Path


def pass_files(store: Path, passes: Path | None, root: Path) -> dict[str, Path]:
    """Return archive name and file of every pass that a store's samples need. Raises BadInput.

    `passes` is a tree of pass_dirs; without it the samples' own pass_dir below `root` is taken.
    """
    names = dict.fromkeys(entry.stored.result.sample for entry in read_store(store).entries)
    found: dict[str, Path] = {}
    for name in names:
        place = root / name
        folder = submission_pass_dir(passes, name, place) if passes is not None else place / "pass_dir"
        if folder is None or not (folder / PASS_MANIFEST).is_file():
            continue
        inside = PurePosixPath(PASSES, *(part for part in Path(name).parts if part not in ("/", "..", ".")))
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                found[str(inside / file.relative_to(folder).as_posix())] = file
    if not found:
        raise BadInput(
            "none of its samples has passes", path=store, expected="--passes or --root that fit it"
        )
    return found


def pack(store: Path, passes: Path | None, root: Path, submission: str, out: Path) -> SubmissionManifest:
    """Write a submission archive; the same content gives the same bytes. Raises BadInput."""
    files = {STORE: store, **pass_files(store, passes, root)}
    contents = {name: file.read_bytes() for name, file in files.items()}
    folders = {str(PurePosixPath(name).parent) for name in files if PurePosixPath(name).name == PASS_MANIFEST}
    manifest = SubmissionManifest(
        submission=submission,
        samples=tuple(sorted(folder.removeprefix(f"{PASSES}/") for folder in folders)),
        files={name: hashlib.sha256(data).hexdigest() for name, data in sorted(contents.items())},
    )
    contents[MANIFEST] = json.dumps(manifest.model_dump(mode="json"), indent=1).encode()
    draft = out.with_name(out.name + ".part")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(draft, "w:xz") as archive:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(contents[name]), 0o644
            archive.addfile(entry, io.BytesIO(contents[name]))
    draft.replace(out)
    return manifest


def unpack(archive: Path, folder: Path) -> Unpacked:
    """Take an archive apart into an empty folder and check its hashes; it is untrusted. Raises BadInput."""
    expected = "an archive written by passbench pack"
    try:
        with tarfile.open(archive, "r:*") as opened:
            for entry in _sound(opened, archive):
                opened.extract(entry, folder, filter="data")
    except FileNotFoundError:
        raise BadInput("no such archive", path=archive, expected=expected) from None
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadInput(f"cannot be unpacked: {error}", path=archive, expected=expected) from None
    try:
        manifest = SubmissionManifest.model_validate_json((folder / MANIFEST).read_text())
    except (OSError, ValidationError, ValueError):
        raise BadInput(f"has no sound {MANIFEST}", path=archive, expected=expected) from None
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if name != MANIFEST and manifest.files.get(name) != hashlib.sha256(file.read_bytes()).hexdigest():
            raise BadInput(f"{name} is not what {MANIFEST} says", path=archive, expected=expected)
    for name in manifest.files:
        if not (folder / name).is_file():
            raise BadInput(f"{name} is missing", path=archive, expected=expected)
    return Unpacked(manifest, folder / STORE, folder / PASSES)


def _sound(archive: tarfile.TarFile, path: Path) -> Iterator[tarfile.TarInfo]:
    total = 0
    for number, entry in enumerate(archive):
        total += entry.size
        if number >= MAX_FILES or total > MAX_BYTES:
            raise BadInput(
                "is too large", path=path, expected=f"{MAX_FILES} files and {MAX_BYTES} bytes at most"
            )
        if entry.isfile():
            yield entry
