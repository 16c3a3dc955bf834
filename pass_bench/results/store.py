"""The store: an append-only file of results, safe against kills, full disks and two writers at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from pydantic import ValidationError

from pass_bench.errors import BadInput, HarnessFailure
from pass_bench.results import lines
from pass_bench.results.keys import environment_id
from pass_bench.results.records import EnvironmentRecord, GraphResult, Record
from pass_bench.results.verdict import Verdict

Retry = Literal["infra", "failed"]
Say = Callable[[str], None]


def _silent(_: str) -> None:
    return None


class StoredResult(Record):
    """A result with what identifies it.

    `submission` names the pass set among those compared; `environment` is the id of an EnvironmentRecord of
    the same store. `measured_at` is UTC, ISO 8601.
    """

    submission: str = ""
    environment: str = ""
    measured_at: str = ""
    result: GraphResult


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """One result of a store under its key."""

    key: str
    stored: StoredResult


@dataclass(frozen=True, slots=True)
class StoreContents:
    """All of a store: the last result of every key in order of first appearance, and its environments."""

    entries: tuple[StoreEntry, ...]
    environments: Mapping[str, EnvironmentRecord]

    @property
    def results(self) -> tuple[GraphResult, ...]:
        """The results alone."""
        return tuple(entry.stored.result for entry in self.entries)


def iter_store(path: Path | str, say: Say = _silent) -> Iterator[StoreEntry | tuple[str, EnvironmentRecord]]:
    """Every sound record of a store in file order, superseded ones included; says which lines it dropped.

    Raises BadInput if the file is missing or holds no line of a store.
    """
    path = Path(path)
    if not path.is_file():
        raise BadInput("no such store", path=path, expected="a results.jsonl")
    sound = broken = 0
    for number, line, unfinished in lines.iterate(path):
        record = None if line is None else _parse(line)
        if record is None:
            broken += 1
            why = "the last line is torn" if unfinished else "the line is damaged"
            say(f"{path}:{number}: {why}; dropped")
            continue
        sound += 1
        yield record
    if broken and not sound:
        raise BadInput("not a store", path=path, expected="lines written by passbench")


def _parse(line: lines.Line) -> StoreEntry | tuple[str, EnvironmentRecord] | None:
    try:
        if line.kind == "environment":
            return line.key, EnvironmentRecord.model_validate_json(line.data)
        if line.kind == "result":
            return StoreEntry(line.key, StoredResult.model_validate_json(line.data))
    except ValidationError:
        return None
    return None


def read_store(path: Path | str, say: Say = _silent) -> StoreContents:
    """Read a whole store; of several results under one key the last counts."""
    entries: dict[str, StoreEntry] = {}
    environments: dict[str, EnvironmentRecord] = {}
    for record in iter_store(path, say):
        if isinstance(record, StoreEntry):
            entries[record.key] = record
        else:
            environments[record[0]] = record[1]
    return StoreContents(tuple(entries.values()), environments)


def read_results(path: Path | str, say: Say = _silent) -> tuple[GraphResult, ...]:
    """The results of a store."""
    return read_store(path, say).results


class Store:
    """A store open for appending, by one process at a time.

    Opening drops a torn last line, and says so. Every record is one write that is with the operating system
    when `append` returns: a kill loses at most the record being written. HarnessFailure when the disk is full
    or another run writes to it.
    """

    def __init__(self, path: Path | str, say: Say = _silent):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise HarnessFailure(f"{self.path}: another run is writing to this store") from None
        try:
            self._mend_last_line(say)
            contents = read_store(self.path, say)
        except BaseException:
            os.close(self._file)
            raise
        self._verdicts = {entry.key: entry.stored.result.verdict for entry in contents.entries}
        self._environments = set(contents.environments)

    def _mend_last_line(self, say: Say) -> None:
        sound, size = lines.sound_length(self.path), self.path.stat().st_size
        if sound == size:
            return
        if lines.decode(os.pread(self._file, size - sound, sound)) is not None:
            self._write(b"\n")  # whole but for its line end
            return
        say(f"{self.path}: dropped a torn last line of {size - sound} bytes")
        os.ftruncate(self._file, sound)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the file back; appending afterwards is an error."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def add_environment(self, environment: EnvironmentRecord) -> str:
        """Write an environment once; returns its id."""
        name = environment_id(environment)
        if name not in self._environments:
            self._write(lines.encode("environment", name, environment.model_dump_json()))
            self._environments.add(name)
        return name

    def append(self, key: str, stored: StoredResult) -> None:
        """Write one result."""
        self._write(lines.encode("result", key, stored.model_dump_json()))
        self._verdicts[key] = stored.result.verdict

    def done(self, retry: Iterable[Retry] = ()) -> frozenset[str]:
        """The keys that need no further run; see `needs_retry` for what `retry` takes out."""
        kinds = tuple(retry)
        return frozenset(key for key, verdict in self._verdicts.items() if not needs_retry(verdict, kinds))

    def results(self, keys: Sequence[str]) -> list[GraphResult]:
        """Read the results under these keys."""
        if not keys:
            return []
        known = {entry.key: entry.stored.result for entry in read_store(self.path).entries}
        return [known[key] for key in keys]

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            raise HarnessFailure(f"{self.path}: cannot write: {error.strerror}") from error


def needs_retry(verdict: Verdict, retry: Iterable[Retry]) -> bool:
    """Whether a result is to be measured again.

    "infra": our own failures. "failed": every verdict but a correct one, and what cannot change on this
    machine (`unsupported_on_cpu`, `nothing_to_check`).
    """
    settled = (Verdict.CORRECT, Verdict.NOTHING_TO_CHECK, Verdict.UNSUPPORTED_ON_CPU)
    kinds = set(retry)
    if verdict is Verdict.INFRA:
        return bool(kinds)
    return "failed" in kinds and verdict not in settled


def merge_stores(sources: Iterable[Path | str], target: Path | str, say: Say = _silent) -> int:
    """Bring stores of several machines together; returns how many results the target gained or replaced.

    Under one key a scored result beats an unscored one, else the later measurement wins.
    """
    with Store(target, say) as store:
        have = {entry.key: entry for entry in read_store(target).entries}
        changed = 0
        for source in sources:
            contents = read_store(source, say)
            for environment in contents.environments.values():
                store.add_environment(environment)
            for entry in contents.entries:
                if entry.key not in have or _better(entry.stored, have[entry.key].stored):
                    store.append(entry.key, entry.stored)
                    have[entry.key] = entry
                    changed += 1
    return changed


def _better(new: StoredResult, old: StoredResult) -> bool:
    scored = (new.result.verdict.scored, old.result.verdict.scored)
    return scored[0] if scored[0] != scored[1] else new.measured_at > old.measured_at
