"""Lower models until lowering another one would tell nothing new; keep each result on disk."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pass_bench.dataset.children import fork, killed_from_outside
from pass_bench.dataset.cut import argument_metas, print_code, whole
from pass_bench.dataset.listing import Listing
from pass_bench.dataset.store import ModelRecord
from pass_bench.errors import BadInput, HarnessFailure

Lowered = dict[str, tuple[int, list[list[int]]]]
FIRST = 120  # statements of a model that are lowered: seconds each, and what follows repeats what came before
_GRAM = 5
_LEAST_NEWS = 0.12
_CPU_SECONDS = 180


def lower_all(
    records: Sequence[ModelRecord],
    root: Path,
    *,
    deadline: Callable[[], bool],
    report: Callable[[str], None] = print,
) -> Lowered:
    """Lower the first statements of every model whose operator sequences are not known yet.

    News are runs of five operators that no lowered model has; a model with less than 12 % of them is
    skipped. Order and choice depend on the records alone, so that a rerun goes on where the last one
    stopped; `deadline` true ends it early."""
    known: set[tuple[str, ...]] = set()
    lowered: Lowered = {}
    for record in sorted(records, key=lambda record: hashlib.sha256(record.key.encode()).digest()):
        if not record.graphs:
            continue
        listing = record.graphs[0].listing
        grams = _grams(listing.operators[:FIRST])
        if not grams or len(grams - known) < _LEAST_NEWS * len(grams):
            continue
        path = root / "lowered" / f"{record.key}.json"
        if not path.exists():
            if deadline():
                continue
            _in_child(listing, path)
            report(f"lowered {record.key}")
        result = json.loads(path.read_text()) if path.exists() else None
        if result is not None:
            lowered[record.key] = (result["count"], result["kernels"])
            known |= grams
    return lowered


def _grams(operators: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(operators[i : i + _GRAM]) for i in range(len(operators) - _GRAM + 1)}


def _in_child(listing: Listing, path: Path) -> None:
    """Write the kernels of a listing, or null; a child that its limits end leaves a null as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    for _ in range(2):
        if not killed_from_outside(_try(listing, path, scratch)):
            break
    if not path.exists():
        scratch.write_text("null")
        scratch.replace(path)


def _try(listing: Listing, path: Path, scratch: Path) -> int:
    """Lower in a child; returns its exit status."""
    pid = fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10 * _CPU_SECONDS)
            resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            try:
                result: Any = {"count": min(FIRST, len(listing.statements)), "kernels": lower(listing)}
            except Exception:
                result = None
            scratch.write_text(json.dumps(result))
            scratch.replace(path)
        finally:
            os._exit(0)
    return os.waitpid(pid, 0)[1]


def lower(listing: Listing, first: int = FIRST) -> list[list[int]]:
    """The kernels of the first statements of a listing, each as the statements it computes.

    HarnessFailure where Inductor does not schedule them; BadInput where the listing cannot be run.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from pass_bench.dataset.kernels import first_statements, mark_views, scheduled_kernels
    from pass_bench.fx import capture

    part = whole(listing)
    scope: dict[str, Any] = {}
    exec(print_code(part), scope)
    names = list(part.argument_names().values())
    module = capture(scope["GraphModule"]().eval(), names)
    nodes = [n for n in module.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
    if len(nodes) != len(listing.statements):
        raise BadInput(f"{len(nodes)} nodes for {len(listing.statements)} statements", path=listing.name)
    metas = argument_metas(part)
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(meta.shape, dtype=getattr(torch, meta.dtype)) for meta in metas]
        mark_views(module, inputs)
    position = {node.name: index for index, node in enumerate(nodes)}
    kernels = scheduled_kernels(first_statements(module, first), inputs)
    if not kernels:
        raise HarnessFailure("no kernel")
    return [sorted(position[name] for name in kernel if name in position) for kernel in kernels]
