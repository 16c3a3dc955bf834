"""Compiled kernels and tuning results of pass sets, kept between runs; no torch.

A run works in a folder of its own. What its passes compiled is copied into the store when it ends, and out
of it when a run of the very same pass set begins: same files, same sample, same versions, same device. So no
pass reads what another one wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

SUBFOLDERS = ("triton", "kernels")
MOST_BYTES = 256 << 20  # of one pass set
MOST_FILES = 20_000
MOST_SETS = 500
PLACEHOLDER = b"@passnet-cache@"  # Triton's group files name the others by absolute path
GROUP = "__grp__"
MOST_GROUP_BYTES = 1 << 20


def store_folder() -> Path | None:
    """$PASSNET_PASS_CACHE, else a folder below the user's cache; None if it is "off" or cannot be used."""
    named = os.environ.get("PASSNET_PASS_CACHE", "")
    if named == "off":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    folder = Path(named) if named else base / "passnet" / "passes"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        usable = folder.stat().st_uid == os.geteuid() and os.access(folder, os.W_OK)
    except OSError:
        return None
    return folder if usable else None


def pass_set_key(sample: Path, folders: Sequence[Path], *others: str) -> str | None:
    """A hash of every file of the pass folders, the sample's place and `others`; None where links lead out.

    A pass may import what lies beside it in its sample, so passes of different samples never share a key.
    """
    digest = hashlib.sha256()

    def add(*parts: bytes) -> None:
        for part in parts:
            digest.update(f"{len(part)}:".encode())
            digest.update(part)

    add(str(sample.resolve()).encode(), *(other.encode() for other in others))
    for number, folder in enumerate(folders):
        add(str(number).encode())
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder)).encode()
            if path.is_symlink():
                if not path.resolve().is_relative_to(folder.resolve()):
                    return None
                add(b"link", name, str(path.readlink()).encode())
            elif path.is_file():
                add(b"file", name, path.read_bytes())
    return digest.hexdigest()[:40]


class PassCacheStore:
    """The store; every method gives up quietly on errors of the file system: a cache is no result."""

    def __init__(self, folder: Path | None):
        self._folder = folder

    def restore(self, key: str | None, run: Path, owner: int | None) -> bool:
        """Copy what is kept under a key into the folder of a run; return whether there was anything."""
        if self._folder is None or key is None or not (self._folder / key).is_dir():
            return False
        with contextlib.suppress(OSError):
            os.utime(self._folder / key)
            _copy(self._folder / key, run, (PLACEHOLDER, str(run).encode()), owner)
            return True
        return False

    def keep(self, key: str | None, run: Path) -> None:
        """Keep what lies in the folder of a run whose children are gone, in place of what was kept before."""
        if self._folder is None or key is None:
            return
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as fresh:
            made = Path(fresh) / key
            made.mkdir()
            if not _copy(run, made, (str(run).encode(), PLACEHOLDER), None):
                return
            if (self._folder / key).exists():
                (self._folder / key).rename(Path(fresh) / "before")
            made.rename(self._folder / key)
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        assert self._folder is not None
        kept = [path for path in self._folder.iterdir() if not path.name.startswith(".")]
        for path in sorted(kept, key=lambda path: path.stat().st_mtime)[:-MOST_SETS]:
            shutil.rmtree(path, ignore_errors=True)


def _copy(source: Path, target: Path, change: tuple[bytes, bytes], owner: int | None) -> int:
    """Copy the plain files of the subfolders, nothing through a link; return how many there were.

    What is over the limits is left out. `change` replaces a path in Triton's group files.
    """
    copied, room = 0, MOST_BYTES
    for path, size in _plain_files(source):
        room -= size
        if room < 0 or copied >= MOST_FILES:
            break
        place = target / path.relative_to(source)
        for folder in reversed(place.relative_to(target).parents):
            _make_folder(target / folder, owner)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            content = file.read(size)
        if path.name.startswith(GROUP) and size <= MOST_GROUP_BYTES:
            content = content.replace(*change)
        place.write_bytes(content)
        if owner is not None:
            os.chown(place, owner, owner)
        if not path.name.startswith(GROUP):
            shutil.copystat(path, place, follow_symlinks=False)
        place.chmod(0o644)
        copied += 1
    return copied


def _make_folder(folder: Path, owner: int | None) -> None:
    if not folder.exists():
        folder.mkdir()
        if owner is not None:
            os.chown(folder, owner, owner)


def _plain_files(source: Path) -> Iterator[tuple[Path, int]]:
    for name in SUBFOLDERS:
        if (source / name).is_symlink():
            continue
        for folder, _, files in os.walk(source / name):  # goes through no link
            for file in sorted(files):
                path = Path(folder) / file
                found = path.lstat()
                if stat.S_ISREG(found.st_mode) and not file.startswith("."):
                    yield path, found.st_size
