"""Run eager on the evaluation graphs of the shipped set as the harness does, and count what is wrong.

    python benchmarks/dataset_eager.py [--step 1] [--lists sample_lists/eval]

Every graph is drawn by the reference worker's own code: twice with the recorded inputs, once with random
ones. Counted: graphs that raise, that give NaN or infinities, that give something else the second time, that
have nothing to check, for which no random inputs were found, and for which an answer that computes nothing
would be right at t = -3. Exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from pass_bench.data import read_sample
from pass_bench.dataset.unpack import unpack, wanted_by
from pass_bench.inputs import REPLAY_SEED, draw_seeds
from pass_bench.worker import reference as worker
from pass_bench.worker.messages import Drawn, DrawRequest, ReferenceJob

ROOT = Path(__file__).resolve().parent.parent
WEAK_AT = -3


def faults(reference: worker.Reference, path: Path) -> list[str]:
    """What is wrong with a graph."""
    reference.answer(ReferenceJob(graph_path=str(path), device="cpu", seed=1024, compat=False), None)
    found: list[str] = []
    runs: list[list[Any]] = []
    for _ in range(2):
        drawn = reference.answer(DrawRequest(regime="recorded", seed=REPLAY_SEED), None)
        if not isinstance(drawn, Drawn):
            return ["eager raises"]
        draw = reference._draw
        assert draw is not None
        runs.append([*draw.outputs, *(draw.after[place] for place in draw.changed)])
    if not runs[0]:
        found.append("nothing to check")
    if drawn.nonfinite:
        found.append("not finite")
    if not all(torch.equal(*pair) for pair in zip(*runs, strict=True) if isinstance(pair[0], torch.Tensor)):
        found.append("not deterministic")
    first, *others = draw_seeds(7)
    drawn = reference.answer(DrawRequest(regime="random", seed=first, redraws=len(others)), None)
    if drawn.skipped:
        return [*found, "no random inputs"]
    weak_at = reference._weak
    if weak_at is not None and weak_at <= WEAK_AT:
        found.append("weak")
    return found


def main() -> int:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="take every so manieth sample")
    parser.add_argument("--lists", type=Path, default=ROOT / "sample_lists" / "eval")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    worker.FLOAT64_LIMIT_NS = 0  # nothing is compared with a compiled graph here
    names = wanted_by(sorted(arguments.lists.glob("passnet_*.txt")))[:: arguments.step]
    started, counted, graphs, reference = time.monotonic(), Counter[str](), 0, worker.Reference()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        unpack(ROOT / "datasets" / "passnet_subgraphs", project, names)
        for number, name in enumerate(names):
            for ref in read_sample(project / name).graphs:
                graphs += 1
                for fault in faults(reference, ref.path):
                    counted[fault] += 1
                    print(f"{fault}: {name} {ref.listed}", flush=True)
            if number % 50 == 49:
                print(f"{number + 1} samples, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{graphs} graphs of {len(names)} samples in {time.monotonic() - started:.0f} s")
    for fault, count in counted.most_common():
        print(f"{count:6d}  {fault}")
    return 1 if counted else 0


if __name__ == "__main__":
    sys.exit(main())
