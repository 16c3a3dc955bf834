"""Extract many entries: a child process each, limited in time and memory, resumable from any kill."""

from __future__ import annotations

import copy
import gc
import importlib
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pass_bench.dataset.children import fork, killed_from_outside
from pass_bench.dataset.listing import Listing
from pass_bench.dataset.store import Delta, ModelRecord, Traced, delta_of, read_record, write_record
from pass_bench.dataset.zoo.entry import Built, Entry
from pass_bench.errors import BadInput

HASH_SEED = "0"
_OTHER_BATCH = 3
_LONGER = 32


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use: seconds of wall time and of one core, and GiB of address space."""

    seconds: int = 600
    cpu_seconds: int = 90
    memory_gib: int = 12


def catalog(libraries: Iterable[str]) -> tuple[Entry, ...]:
    """The entries of these libraries, sorted by rank, the libraries taking turns."""
    from pass_bench.dataset.zoo import others, transformers_zoo

    entries: list[tuple[int, int, str, Entry]] = []
    for library in libraries:
        source = transformers_zoo.catalog if library == "transformers" else others.CATALOGS[library][0]
        position: dict[int, int] = {}
        for entry in source():
            position[entry.rank] = position.get(entry.rank, -1) + 1
            entries.append((entry.rank, position[entry.rank], library, entry))
    return tuple(entry for *_, entry in sorted(entries, key=lambda item: item[:3]))


def record_path(root: Path, entry: Entry) -> Path:
    """Where the record of an entry lies."""
    return root / "models" / entry.library / f"{entry.name}.json.zst"


def families(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries by library and class, in order of their first: a class is imported once for all of them."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        found.setdefault((entry.library, entry.class_name), []).append(entry)
    return list(found.values())


def harvest(
    entries: Iterable[Entry],
    root: Path,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    report: Callable[[str], None] = print,
) -> int:
    """Extract the entries that have no record below `root` yet; returns how many records were written.

    The entries of a class share a forked child, which writes every record in one step, so a kill at any time
    loses only what was running. An entry that kills its child or runs too long leaves a record that says so,
    and another child goes on with the rest of its class. One whose child was killed from outside is tried
    once more.
    """
    limits = limits or Limits()
    waiting = families(entry for entry in entries if not record_path(root, entry).exists())
    warm_up(dict.fromkeys(family[0].library for family in waiting))
    report(f"{sum(map(len, waiting))} entries of {len(waiting)} classes to extract")
    running: dict[int, tuple[list[Entry], float]] = {}
    again: set[str] = set()
    done = 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                family = waiting.pop(0)
                running[_start(family, root, limits)] = (family, time.monotonic())
            pid, status = os.waitpid(-1, 0)
            if pid not in running:
                continue
            family, started = running.pop(pid)
            left = [entry for entry in family if not record_path(root, entry).exists()]
            if left and killed_from_outside(status) and left[0].key not in again:
                again.add(left[0].key)
                waiting.insert(0, left)
                left, family = [], family[: len(family) - len(left)]
            if left:
                reason = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "died"
                failed = _failed(left[0], reason, time.monotonic() - started)
                write_record(failed, record_path(root, left[0]))
                if left[1:]:
                    waiting.insert(0, left[1:])
            for entry in family[: len(family) - len(left) + bool(left)]:
                done += 1
                report(f"{done} {_line(read_record(record_path(root, entry)))}")
    finally:
        for pid in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return done


def _line(record: ModelRecord) -> str:
    statements = sum(len(graph.listing.statements) for graph in record.graphs)
    return f"{record.key} {record.seconds:.1f}s {record.failure or f'{statements} statements'}"


_HEAVY = {
    "transformers": "transformers.models.llama.modeling_llama",
    "torch_geometric": "torch_geometric.nn",
    "timm": "timm",
    "torchvision": "torchvision",
    "diffusers": "diffusers.models",
    "smp": "segmentation_models_pytorch",
}


def warm_up(libraries: Iterable[str] = ()) -> None:
    """Import what every child needs, once: children are forks, and a library takes seconds to import."""
    import torch

    from pass_bench.dataset.record import record

    torch.set_num_threads(1)
    for library in libraries:
        with suppress(ImportError):  # its entries will say so
            importlib.import_module(_HEAVY.get(library, "torch"))
    record(torch.nn.Linear(4, 4), {"input": torch.ones(2, 4)}, name="toy")
    gc.collect()
    gc.freeze()


def _failed(entry: Entry, reason: str, seconds: float) -> ModelRecord:
    return ModelRecord(
        entry.library, entry.name, entry.class_name, entry.tag, failure=reason, seconds=round(seconds, 1)
    )


def _start(family: Sequence[Entry], root: Path, limits: Limits) -> int:
    pid = fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        memory = limits.memory_gib << 30
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        _silence()
        for entry in family:
            signal.alarm(limits.seconds)
            used = int(time.process_time()) + limits.cpu_seconds
            resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
            started = time.monotonic()
            try:
                record = extract_entry(entry, full=entry.rank in (0, 2))
            except Exception as error:
                first = next(iter(str(error).strip().splitlines()), "")
                record = _failed(entry, f"{type(error).__name__}: {first[:200]}", 0.0)
            record = replace(record, seconds=round(time.monotonic() - started, 1))
            write_record(record, record_path(root, entry))
        code = 0
    finally:
        os._exit(code)


def _silence() -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)


def build(entry: Entry) -> Built:
    """Build an entry's module."""
    from pass_bench.dataset.zoo import others, transformers_zoo

    if entry.library == "transformers":
        return transformers_zoo.build(entry)
    return others.CATALOGS[entry.library][1](entry)


def extract_entry(entry: Entry, full: bool) -> ModelRecord:
    """Record one entry; with `full`, also in half precision, at another batch size and sequence length."""
    import torch
    from torch.utils import _pytree as pytree

    from pass_bench.dataset.extract import cast_floats
    from pass_bench.dataset.record import record
    from pass_bench.dataset.weights import fill_weights

    torch.manual_seed(0)
    built = build(entry)
    module = built.module
    on_meta = any(parameter.is_meta for parameter in module.parameters())
    if not on_meta:
        fill_weights(module)
    batch, sequence = built.batch, built.sequence
    with _defined_memory():
        base = record(module, built.inputs(batch, sequence), name=entry.name, check=not on_meta)
    if not base.listing.statements:
        raise BadInput("no torch calls", path=entry.name)

    def changed(batch: int, sequence: int, half: bool = False) -> Delta | None:
        """The change of another recording, on the meta device if the module allows that."""
        inputs = built.inputs(batch, sequence)
        for device in ("meta", "cpu"):
            variant = copy.deepcopy(module).to(device) if half or device == "meta" else module
            moved = pytree.tree_map(lambda v, d=device: v.to(d) if isinstance(v, torch.Tensor) else v, inputs)
            if half:
                variant, moved = variant.half(), cast_floats(moved, torch.float16)
            try:
                other = record(variant, moved, name=entry.name, with_metas=False, check=False).listing
            except Exception:
                continue
            return delta_of(base.listing, on_cpu(other))
        return None

    by_batch = changed(_OTHER_BATCH, sequence) if full else None
    by_sequence = changed(batch, sequence + _LONGER) if full and built.has_sequence else None
    graph = Traced(
        on_cpu(base.listing),
        (batch, sequence),
        changed(batch, sequence, half=True) if full else None,
        None if by_batch is None else (_OTHER_BATCH, by_batch),
        None if by_sequence is None else (sequence + _LONGER, by_sequence),
    )
    return ModelRecord(
        entry.library,
        entry.name,
        entry.class_name,
        entry.tag,
        (graph,),
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        measured=not on_meta,
    )


@contextmanager
def _defined_memory() -> Iterator[None]:
    """What `empty` and the like leave undefined is NaN, which no statistic counts: not what lay there."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def with_fixed_hashes() -> None:
    """Start this process again with a fixed hash seed, unless it has one.

    Some models are built by iterating over a set of names, and are built in another order in every process.
    """
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        arguments = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": HASH_SEED})


def on_cpu(listing: Listing) -> Listing:
    """The listing with device literals of the meta device moved to the CPU."""
    statements = tuple(
        replace(s, text=_META.sub("cpu", s.text)) if "meta" in s.text else s for s in listing.statements
    )
    return replace(listing, statements=statements)


_META = re.compile(r"(?<=['\"])meta(?=['\"])")
