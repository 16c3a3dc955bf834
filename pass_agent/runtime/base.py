"""The interface of runtimes: a runtime opens boxes, and every evaluation gets a fresh one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pass_agent.records import Record

LOG_LIMIT = 64 << 20  # a box whose output grows beyond this is stopped


class Ran(Record):
    """What became of one command; `lost` says that the place itself went away under it."""

    code: int
    output: str  # stdout and stderr together, head and tail
    timed_out: bool = False
    flooded: bool = False
    lost: str = ""
    seconds: float = 0.0


class Box(Protocol):
    """A fresh place with a work folder (the sample) and an out folder, both empty at first."""

    work: str  # absolute path inside the box
    out: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What an evaluation in it has to be told, besides the user's choices."""

    def put(self, tree: Mapping[str, bytes | Path]) -> None:
        """Lay files below `work`: bytes are written; a path (file or directory) becomes its content."""

    def run(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> Ran:
        """Run one command in `work`; nothing that it started survives the end of its time."""

    def get(self) -> dict[str, bytes]:
        """The files below `out`, by relative path; files over 64 MiB are left out."""

    def close(self) -> None:
        """End every process in the box and remove it; never raises for a box that is gone already."""


class Runtime(Protocol):
    """Where boxes come from. `identity` enters the key of cached evaluations."""

    name: str
    identity: str

    def devices(self, wanted: str) -> tuple[str, ...]:
        """What evaluations take turns on: GPUs as the driver names them, or ("cpu",)."""

    def open(self, device: str = "") -> Box:
        """Open a fresh box that sees one device ("": none is needed); RuntimeLost where none can be had."""

    def clean(self, own: bool = False) -> int:
        """Remove what dead runners left behind, with `own` also this runner's boxes; returns how many.

        With `own` nothing can be started here afterwards.
        """
