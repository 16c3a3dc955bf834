"""Run the whole dataset pipeline twice on a fixed set of architectures and compare every published byte.

    python benchmarks/dataset_determinism.py WORK [--entries 50]

Needs an environment with transformers, timm and torch_geometric. Prints wall times and digests; exit code 1
if they differ.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import time
from pathlib import Path

from pass_bench.dataset import pipeline
from pass_bench.dataset.plan import Budget
from pass_bench.dataset.zoo.harvest import catalog, harvest

LIBRARIES = ("transformers", "timm", "torch_geometric")


def run_once(work: Path, count: int) -> dict[str, str]:
    """Extract the first entries of the catalog, run all stages, return a digest per published file."""
    shutil.rmtree(work, ignore_errors=True)
    started = time.monotonic()
    harvest(catalog(LIBRARIES)[:count], work, report=lambda _: None)
    print(f"extract {time.monotonic() - started:.0f} s", flush=True)
    started = time.monotonic()
    quiet = lambda _: None  # noqa: E731
    pipeline.decompose(work, report=quiet)
    pipeline.vary(work, Budget(instances=1, sole_instances=1, dims=1), report=quiet)
    pipeline.check(work, report=quiet)
    graphs = pipeline.publish(work, work / "out" / "shards", work / "out", count=20, report=quiet)
    print(f"stages {time.monotonic() - started:.0f} s, {graphs} graphs", flush=True)
    files = sorted(path for path in (work / "out").rglob("*") if path.is_file())
    return {str(p.relative_to(work)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def main() -> int:
    """Compare two runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--entries", type=int, default=50)
    arguments = parser.parse_args()
    one = run_once(arguments.work / "one", arguments.entries)
    two = run_once(arguments.work / "two", arguments.entries)
    for name, digest in one.items():
        print(digest[:16], "same" if two.get(name) == digest else "DIFFERS", name)
    return 0 if one == two else 1


if __name__ == "__main__":
    sys.exit(main())
