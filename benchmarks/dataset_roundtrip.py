"""Cut random parts of zoo models, write and read them, run them, and compare with the model's own values.

    python benchmarks/dataset_roundtrip.py OUT [--parts 200] [--seed 0]

Needs an environment with transformers, timm and torch_geometric. Inputs of a part are the values that the
model computed; outputs must be allclose at the baseline of float32 (rtol 1.3e-6, atol 1e-5), equal where they
are no floats. Parts in or after which memory changes are left out: the tests on real graphs cover them.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import torch

from pass_bench.data import read_graph
from pass_bench.dataset.capture import Captured
from pass_bench.dataset.cut import cut, is_legal
from pass_bench.dataset.extract import Origin, write_cut
from pass_bench.dataset.graphs import values_of
from pass_bench.dataset.record import record
from pass_bench.dataset.weights import fill_weights
from pass_bench.dataset.zoo.entry import Entry
from pass_bench.dataset.zoo.harvest import build, catalog
from pass_bench.fx.load import load_module

PER_MODEL = 5


def recorded(entry: Entry) -> Captured | None:
    """The recorded graph of an entry, or None where it cannot be built or is too long."""
    try:
        built = build(entry)
        fill_weights(built.module)
        return record(built.module, built.inputs(built.batch, built.sequence), name=entry.name)
    except Exception:
        return None


def differences(captured: Captured, entry: Entry, generator: random.Random, out: Path) -> list[bool]:
    """Whether each of some random parts of a graph computes something else than the graph."""
    listing, values = captured.listing, values_of(captured)
    found: list[bool] = []
    for _ in range(200):
        start = generator.randrange(len(listing.statements))
        end = min(start + generator.randint(1, 24), len(listing.statements))
        if not is_legal(listing, start, end):
            continue
        changes = [
            s for s in listing.statements[:end] if s.effect or "inplace=True" in s.text or "_(" in s.text
        ]
        if changes or any("torch.empty" in s.text for s in listing.statements[start:end]):
            continue
        part = cut(listing, start, end)
        path = out / f"{entry.name}_{start}_{end}"
        write_cut(part, path, origin=Origin(entry.library, entry.name))
        graph = read_graph(path)
        index = {name: i for i, name in part.argument_names().items()}
        inputs = [values[listing.values[index[argument.name]].name].clone() for argument in graph.arguments]
        with torch.no_grad():
            outputs = load_module(graph)(*inputs)
        expected = [values.get(listing.values[i].name) for i in part.outputs]
        pairs = [(one, two) for one, two in zip(outputs, expected, strict=True) if two is not None]
        if pairs:
            found.append(not all(agree(one, two) for one, two in pairs))
        if len(found) == PER_MODEL:
            break
    return found


def agree(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether a result is the model's value, at the baseline of float32 where it is a float."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if expected.is_floating_point():
        return torch.allclose(actual, expected, rtol=1.3e-6, atol=1e-5, equal_nan=True)
    return torch.equal(actual, expected)


def main() -> int:
    """Print how many parts agreed; exit code 1 if any did not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    generator = random.Random(arguments.seed)
    entries = [e for e in catalog(("transformers", "timm", "torch_geometric")) if e.rank == 0]
    generator.shuffle(entries)
    found: list[bool] = []
    models = without = 0
    for entry in entries:
        if len(found) >= arguments.parts:
            break
        captured = recorded(entry)
        if captured is None:
            without += 1
            continue
        results = differences(captured, entry, generator, arguments.out)
        models += bool(results)
        found += results
        if any(results):
            print("differs:", entry.key, flush=True)
    print(
        f"{len(found)} parts of {models} models, {sum(found)} differ; {without} models could not be recorded"
    )
    return 1 if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
