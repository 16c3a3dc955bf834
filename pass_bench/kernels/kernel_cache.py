"""Where compiled kernels lie: one file per content, written atomically, shared by concurrent processes."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_dir() -> Path:
    """The folder of compiled kernels: $PASSNET_KERNEL_CACHE, else one below the user's cache folder.

    Falls back to a folder of this user below the temporary folder where that one cannot be written.
    """
    named = os.environ.get("PASSNET_KERNEL_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    fallback = Path(tempfile.gettempdir()) / f"passnet-kernels-{os.getuid()}"
    for folder in (Path(named) if named else Path(base) / "passnet" / "kernels", fallback):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            return folder
    return Path(tempfile.mkdtemp(prefix="passnet-kernels-"))


def content_key(*parts: str | bytes) -> str:
    """A hash over all parts, each with its length, so that no two lists of parts collide by joining."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:32]


def cached_file(name: str, build: Callable[[Path], None]) -> Path:
    """Return the cached file `name`, building it first if it is not there.

    `build` writes to the path it is given, in a private folder; the result is renamed into place, so a reader
    never sees half a file and of two racing builders one wins with the same content.
    """
    folder = cache_dir()
    target = folder / name
    if not target.exists():
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as private:
            made = Path(private) / name
            build(made)
            made.replace(target)
    return target
