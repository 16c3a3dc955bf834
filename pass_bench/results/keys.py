"""What makes two measurements the same one: content hashes of everything that could change a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pass_bench.results.records import EnvironmentRecord, EvalSettings

_GRAPH_FILES = ("model.py", "weight_meta.py", "input_meta.py")
_SKIPPED_FOLDERS = frozenset({"__pycache__", ".git"})
# Said of a machine, but no reason to measure again.
_NOT_IDENTIFYING = frozenset({"commit", "calibration", "clocks"})


def _digest(parts: Mapping[str, Any]) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=65536)
def _file_hash(path: Path, size: int, modified_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash_of(path: Path) -> str:
    status = path.stat()
    return _file_hash(path, status.st_size, status.st_mtime_ns)


def graph_id(path: Path | str) -> str:
    """Hash of what a graph computes and of how its inputs are made; where it lies does not matter."""
    path = Path(path)
    return _digest({name: _hash_of(path / name) for name in _GRAPH_FILES if (path / name).is_file()})


def pass_set_id(*pass_dirs: Path | str | None) -> str:
    """Hash of all files of the pass directories, names included; a missing directory counts as empty."""
    parts: dict[str, str] = {}
    for number, folder in enumerate(pass_dirs):
        if folder is None or not Path(folder).is_dir():
            continue
        root = Path(folder)
        for file in sorted(root.rglob("*")):
            name = file.relative_to(root)
            if file.is_file() and not _SKIPPED_FOLDERS & set(name.parts):
                parts[f"{number}/{name}"] = _hash_of(file)
    return _digest(parts)


def settings_id(settings: EvalSettings) -> str:
    """Hash of the settings that can change a result.

    How long we are ready to wait is not one of them; nor is the device asked for, as the environment has the
    one that was used.
    """
    return _digest(settings.model_dump(exclude={"timeout_s", "device"}))


def environment_id(environment: EnvironmentRecord) -> str:
    """Hash of the machine and the versions, without commit, clocks and calibration."""
    return _digest(environment.model_dump(exclude=set(_NOT_IDENTIFYING)))


def result_key(
    *, graph: str, position: int, passes: str, settings: str, environment: str, harness: str
) -> str:
    """The key of one graph's result from the ids above, its position in the sample and the harness version.

    Positions are part of it because a list may name a graph twice.
    """
    return _digest(
        {
            "graph": graph,
            "position": position,
            "passes": passes,
            "settings": settings,
            "environment": environment,
            "harness": harness,
        }
    )


def measured_key(
    *,
    sample: str,
    graph: str,
    position: int,
    passes: str,
    settings: EvalSettings,
    environment: EnvironmentRecord,
) -> str:
    """The key of one graph of a sample as measured with these settings in this environment.

    The sample's name is part of it because samples share graphs, and a compiler without passes has no others.
    """
    return result_key(
        graph=graph,
        position=position,
        passes=f"{sample}\0{passes}",
        settings=settings_id(settings),
        environment=environment_id(environment),
        harness=environment.harness,
    )
