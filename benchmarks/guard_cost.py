"""What the guards cost: timed calls and whole evaluations of one sample with guards on and off, in turns.

    python benchmarks/guard_cost.py [SAMPLE] [--rounds 10] [--device auto]

Timed calls are compared by the speedup against eager, which is timed in turns with them and so takes out what
the machine does meanwhile. Exit code 0: the interval of the ratio lies within +-2 %, and an evaluation takes
at most 1.5 times as long.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from pathlib import Path

from pass_bench.data import read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.worker.evaluate import Evaluator

DEFAULT = Path(__file__).resolve().parent.parent / "samples/fusible_subgraphs/gpt2/gelu_tanh"


def interval(ratios: list[float], draws: int = 4000) -> tuple[float, float, float]:
    """Median and 95 % bootstrap interval."""
    chooser = random.Random(1)
    medians = sorted(statistics.median(chooser.choices(ratios, k=len(ratios))) for _ in range(draws))
    return statistics.median(ratios), medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sample", type=Path, nargs="?", default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--graphs", type=int, default=2, help="how many graphs of the sample")
    options = parser.parse_args()
    sample = read_sample(options.sample)
    chosen = range(min(options.graphs, len(sample.graphs)))
    speedup: dict[tuple[bool, int], list[float]] = {}
    seconds: dict[bool, float] = {True: 0.0, False: 0.0}
    evaluators = {
        guards: Evaluator(EvalSettings(device=options.device, guards=guards)).__enter__()
        for guards in (True, False)
    }
    try:
        for number in range(options.rounds + 1):  # the first round fills the kernel caches
            for guards in (True, False) if number % 2 else (False, True):
                start = time.monotonic()
                results = evaluators[guards].evaluate(sample, only=chosen)
                if number == 0:
                    continue
                seconds[guards] += time.monotonic() - start
                for result in results:
                    if result.e2e is None:
                        print(f"{result.graph}: {result.verdict}: {result.reason}")
                        return 1
                    speedup.setdefault((guards, result.index), []).append(result.e2e.speedup)
        device = evaluators[True].environment
    finally:
        for evaluator in evaluators.values():
            evaluator.close()
    ratios = [
        on / off
        for index in chosen
        for on, off in zip(speedup[True, index], speedup[False, index], strict=True)
    ]
    middle, low, high = interval(ratios)
    whole = seconds[True] / seconds[False]
    name = device.device_name if device else ""
    print(f"{name} {options.sample.name}, {len(chosen)} graphs, {options.rounds} rounds")
    print(f"timed calls, guards on against off: {middle:.4f} [{low:.4f}, {high:.4f}]")
    on_s, off_s = (seconds[guards] / options.rounds for guards in (True, False))
    print(f"whole evaluation: {on_s:.2f} s against {off_s:.2f} s")
    print(f"that is {whole:.2f} times as long")
    return 0 if low >= 0.98 and high <= 1.02 and whole <= 1.5 else 1


if __name__ == "__main__":
    sys.exit(main())
