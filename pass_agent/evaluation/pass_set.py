"""A pass set: the files of a pass_dir, and the hash that a score is bound to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pass_agent.errors import BadInput

MANIFEST = "sorted_output_pass_rule_names.json"
LIMIT_FILES = 200
LIMIT_BYTES = 4 << 20
IGNORED = ("__pycache__", ".ignore")


@dataclass(frozen=True)
class PassSet:
    """Relative POSIX path -> content; equal sets have equal hashes."""

    files: Mapping[str, bytes]

    @property
    def hash(self) -> str:
        """Hex sha256 over names and contents, 32 digits."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            content = self.files[name]
            digest.update(f"{len(name.encode())}:{name}:{len(content)}:".encode())
            digest.update(content)
        return digest.hexdigest()[:32]

    @property
    def names(self) -> tuple[str, ...]:
        """The passes of the manifest; empty where there is none that can be read."""
        try:
            listed = json.loads(self.files.get(MANIFEST, b"[]"))
        except ValueError:
            return ()
        return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()


def read_pass_set(folder: Path) -> PassSet:
    """Read the regular files under `folder`; links, caches and `.ignore` are left out.

    Raises BadInput beyond 200 files or 4 MiB: a pass set is source code.
    """
    files: dict[str, bytes] = {}
    size = 0
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        for name in sorted(names):
            path = Path(base, name)
            if name in IGNORED or path.is_symlink() or not path.is_file():
                continue
            content = path.read_bytes()
            size += len(content)
            if len(files) >= LIMIT_FILES or size > LIMIT_BYTES:
                raise BadInput(f"a pass set holds at most {LIMIT_FILES} files and 4 MiB", path=folder)
            files[path.relative_to(folder).as_posix()] = content
    return PassSet(files)


def write_pass_set(pass_set: PassSet, folder: Path) -> None:
    """Make `folder` hold exactly this pass set; what else lay there is removed, `.ignore` excepted."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in pass_set.files and path.name != ".ignore":
            path.unlink()
    for name, content in pass_set.files.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def store_pass_set(pass_set: PassSet, store: Path) -> Path:
    """Keep a pass set under its hash in `store`; a kill half-way leaves nothing under that name."""
    target = store / pass_set.hash
    if not target.is_dir():
        partial = store / f".{pass_set.hash}.{os.getpid()}.{os.urandom(4).hex()}"
        write_pass_set(pass_set, partial)
        try:
            partial.rename(target)
        except OSError:  # another attempt stored the same set first
            write_pass_set(PassSet({}), partial)
            partial.rmdir()
    return target


def load_pass_set(pass_hash: str, store: Path) -> PassSet:
    """Read a stored pass set back; raises BadInput where it is missing or was changed since."""
    folder = store / pass_hash
    if not folder.is_dir():
        raise BadInput(f"no pass set {pass_hash}", path=store)
    pass_set = read_pass_set(folder)
    if pass_set.hash != pass_hash:
        raise BadInput("the pass set was changed after it was scored", path=folder)
    return pass_set
