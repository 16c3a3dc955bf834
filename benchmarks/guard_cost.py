"""What the guards cost: timed calls and whole evaluations of samples with guards on and off, in turns.

    python benchmarks/guard_cost.py [SAMPLE ...] [--device auto] [--pairs 12] [--rounds 8] [--seconds 60]

Timed calls: in each pair two processes hold the same compiled graph and are timed in short blocks, in turns.
Then one of them goes through everything that guards do in an evaluation (the watched call, audited calls
between blocks, a control), and both are timed again. The ratio of two neighbouring blocks leaves out what the
machine does meanwhile; its median over all of them, afterwards by before, leaves out what differs between two
processes from the start (where their memory lies). Whole evaluations: wall time of these graphs, from the
start of the workers to their end, in turns; and of the graphs alone, the workers warm.

Exit code 0: the 95 % interval of the timed calls lies within +-2 %, and an evaluation takes at most 1.5 times
as long. `--seconds` bounds the run: no pair and no round begins after that, but the first ones. `--rounds 0`:
timed calls alone; `--pairs 0`: whole evaluations alone.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pass_bench.data import Sample, read_sample
from pass_bench.results.records import EvalSettings
from pass_bench.worker.control import Control
from pass_bench.worker.conversation import RECORDED_SEED, Conversation
from pass_bench.worker.evaluate import Evaluator
from pass_bench.worker.integrity import Integrity, kept_calls
from pass_bench.worker.messages import Entered, Prepared, PrepareRequest, ReferenceJob
from pass_bench.worker.trials import Trials

DEFAULT = Path(__file__).resolve().parent.parent / "samples/fusible_subgraphs/gpt2/gelu_tanh"
BLOCKS = 24  # before the guards, and as many after them
ROUNDS = {"cpu": 8, "cuda": 32}  # in a block
DRAWS = 4000


class Side:
    """One process with the compiled graph, timed block by block."""

    def __init__(self, evaluator: Evaluator, sample: Sample, index: int, stack: contextlib.ExitStack):
        assert evaluator._zygote is not None and evaluator._references is not None
        reference = sample.graphs[index]
        self._zygote, self._stack = evaluator._zygote, stack
        self._candidates, self._hush = evaluator._candidates, evaluator._hush
        self._job = evaluator._job(sample, reference.path, sample.pass_dir, None)
        self._settings = evaluator.settings
        loan = stack.enter_context(evaluator._references.lend())
        candidate = stack.enter_context(evaluator._zygote.fork("candidate"))
        for child in (loan.child, candidate):
            stack.enter_context(self._hush.member(child, self))
        self._talk = Conversation(self._settings, self._job.device, loan.child)
        self._talk.with_candidate(candidate)
        self._talk.send(self._job)
        self._talk.send(PrepareRequest())

    def prepare(self) -> None:
        """Wait for the compiled graph, run it once, warm it."""
        job = self._job
        with self._hush.preparing(self):
            self._talk.reference_ask(
                ReferenceJob(graph_path=job.graph_path, device=job.device, seed=job.seed)
            )
            self._recorded = self._talk.draw("recorded", RECORDED_SEED)
            self._talk.reply("entering its box", Entered)
            prepared = self._talk.reply("compiling", Prepared)
        done, _ = self._talk.run("recorded", self._recorded)
        self._run_ns = done.nanoseconds
        self._has_unrewritten = prepared.has_unrewritten
        self._integrity: Integrity | None = None
        self._trials = self._new_trials()
        self._trials.warm()
        self._later = False

    def _new_trials(self) -> Trials:
        """Trials as an evaluation has them, with guards if there are any."""
        guards = self._integrity
        return Trials(
            ask=self._talk.timed,
            settings=self._settings,
            device=self._job.device,
            mutated=self._recorded.effects,
            unrewritten=self._has_unrewritten,
            between=guards.between_blocks if guards else None,
            beside=guards.control_block if guards else None,
            hold=lambda: self._hush.others_still(self),  # as an evaluation does
            keep=kept_calls(self._recorded),
        )

    def watch(self, late: bool) -> None:
        """Do what guards do before the trials; with `late` the watched call comes in the middle of them."""
        recorded = self._recorded
        assert self._candidates is not None
        control = Control(self._zygote, self._candidates, self._job, recorded.effects, kept_calls(recorded))
        self._stack.enter_context(control)
        self._stack.enter_context(self._hush.member(control.child, self))
        self._integrity = Integrity(self._talk, self._settings, self._job.device, "", recorded)
        self._trials = self._new_trials()
        self._later = late
        if not late:
            self._integrity.guarded_call(self._run_ns)
        self._integrity.before_trials(control, self._settings.warmup, 1.0)

    def block(self) -> tuple[float, float]:
        """Medians of a block: eager, compiled, in nanoseconds; then what guards do between blocks."""
        self._trials.again(ROUNDS[self._job.device])
        arms = self._trials.blocks[-1].arms
        if self._integrity is not None:
            self._integrity.between_blocks(self._trials)
            if self._later:
                self._later = False
                self._integrity.guarded_call(self._run_ns)
        return statistics.median(arms[0]), statistics.median(arms[1])


class Pair:
    """Two processes with the same compiled graph, ready to be timed; to be closed."""

    def __init__(self, evaluator: Evaluator, sample: Sample, index: int):
        self._stack = contextlib.ExitStack()
        try:
            self.guarded, self.free = (Side(evaluator, sample, index, self._stack) for _ in range(2))
            for side in (self.guarded, self.free):
                side.prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the processes."""
        self._stack.close()


def pairs_of(
    evaluator: Evaluator, sample: Sample, graphs: Sequence[int], count: int, end: float
) -> Iterator[Pair]:
    """Yield pairs until `end`, but four at least; beside a GPU the next is prepared while one is timed."""
    ahead = evaluator.device == "cuda"
    with ThreadPoolExecutor(1) as pool:
        coming: Future[Pair] | None = None
        for number in range(count):
            if number > 3 and time.monotonic() > end:
                break
            pair = coming.result() if coming else Pair(evaluator, sample, graphs[number % len(graphs)])
            coming = None
            if ahead and number + 1 < count:
                coming = pool.submit(Pair, evaluator, sample, graphs[(number + 1) % len(graphs)])
            with contextlib.closing(pair):
                yield pair
        if coming:
            coming.result().close()


def compare(pair: Pair, order: random.Random) -> tuple[float, float, float]:
    """Logarithms of what guards cost in one pair: compiled calls, eager ones, compiled ones afterwards."""
    log: dict[tuple[bool, int], float] = {}  # guarded by free; afterwards or before, arm
    for after in (False, True):
        if after:
            pair.guarded.watch(late=order.random() < 0.5)
        blocks = []
        for _ in range(BLOCKS):
            sides = {
                watched: (pair.guarded if watched else pair.free)
                for watched in order.sample((True, False), 2)
            }
            blocks.append({watched: side.block() for watched, side in sides.items()})
        for arm in (0, 1):
            ratios = (math.log(block[True][arm] / block[False][arm]) for block in blocks)
            log[after, arm] = statistics.median(ratios)
    eager, compiled = (log[True, arm] - log[False, arm] for arm in (0, 1))
    return compiled, eager, log[True, 1]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Ratio of the median logarithm and its 95 % bootstrap interval over pairs."""
    chooser = random.Random(1)
    medians = sorted(statistics.median(chooser.choices(values, k=len(values))) for _ in range(DRAWS))
    chosen = (statistics.median(values), medians[int(0.025 * DRAWS)], medians[int(0.975 * DRAWS)])
    return tuple(math.exp(value) for value in chosen)  # type: ignore[return-value]


Seconds = dict[bool, list[float]]


def whole(
    sample: Sample, chosen: Sequence[int], device: str, rounds: int, end: float
) -> tuple[Seconds, Seconds]:
    """Seconds of whole evaluations with guards and without, and of their graphs alone, in turns.

    The first evaluation, which fills the caches, does not count.
    """
    everything: Seconds = {True: [], False: []}
    graphs: Seconds = {True: [], False: []}
    if not rounds:
        return everything, graphs
    for number in range(rounds + 1):
        for guards in (True, False) if number % 2 else (False, True):
            if not number and not guards:
                continue
            if number > 2 and time.monotonic() > end:
                return everything, graphs
            start = time.monotonic()
            with Evaluator(EvalSettings(device=device, guards=guards)) as evaluator:  # type: ignore[arg-type]
                ready = time.monotonic()
                results = evaluator.evaluate(sample, only=chosen)
                done = time.monotonic()
            if number:
                everything[guards].append(time.monotonic() - start)
                graphs[guards].append(done - ready)
            for result in results:
                if result.e2e is None:
                    raise SystemExit(f"{result.graph}: {result.verdict}: {result.reason}")
    return everything, graphs


def times_as_long(seconds: Seconds) -> tuple[float, str]:
    """The ratio of the medians, guards by none, and words for it; 0 where nothing was measured."""
    if not seconds[True]:
        return 0.0, "not measured"
    on, off = (statistics.median(seconds[guards]) for guards in (True, False))
    return on / off, f"{on:.2f} s against {off:.2f} s (medians of {len(seconds[True])}): {on / off:.2f} times"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("samples", type=Path, nargs="*", default=[DEFAULT], help="timed calls: of the first")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=8, help="whole evaluations of each kind and sample")
    parser.add_argument("--graphs", type=int, default=3, help="at most so many graphs of a sample")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    options = parser.parse_args()
    begin = time.monotonic()
    seconds_left = options.seconds or 1e9
    end = begin + seconds_left
    samples = [read_sample(path) for path in options.samples]
    lines = []
    held = True
    for number, sample in enumerate(samples, 1):
        share = (0.45 if options.pairs else 1.0) * number / len(samples)
        chosen = chosen_of(sample, options.graphs)
        seconds = whole(sample, chosen, options.device, options.rounds, begin + share * seconds_left)
        everything, alone = map(times_as_long, seconds)
        held = held and everything[0] <= 1.5
        lines.append(f"{name_of(sample)}, {len(chosen)} graphs, whole evaluation: {everything[1]}")
        lines.append(f"{name_of(sample)}, its graphs alone: {alone[1]}")
        print("\n".join(lines[-2:]), file=sys.stderr, flush=True)
    if options.pairs:
        held = timed_calls(samples[0], options, end, lines) and held
    lines.append(f"within 2 % and 1.5 times: {'yes' if held else 'no'}; {time.monotonic() - begin:.0f} s")
    print("\n".join(lines))
    if options.out is not None:
        with options.out.open("a") as file:
            file.write("\n".join(f"- {line}" for line in lines) + "\n")
    return 0 if held else 1


def timed_calls(sample: Sample, options: argparse.Namespace, end: float, lines: list[str]) -> bool:
    """Compare pairs of processes until `end`, add what came out to `lines`; whether it is within 2 %."""
    order = random.Random(1)
    chosen = chosen_of(sample, options.graphs)
    pairs: list[tuple[float, float, float]] = []
    with Evaluator(EvalSettings(device=options.device, guards=True)) as on:
        for pair in pairs_of(on, sample, chosen, options.pairs, end):
            pairs.append(compare(pair, order))
            print(f"pair {len(pairs)}: {math.exp(pairs[-1][0]):.4f}", file=sys.stderr, flush=True)
        device = on.environment.device_name if on.environment else ""
        calls_of_pair = 2 * BLOCKS * ROUNDS[on.device]
    calls, eager, plain = (interval([pair[part] for pair in pairs]) for part in range(3))
    lines += [
        f"{device}, {name_of(sample)}, {len(chosen)} graphs, {len(pairs)} pairs of {calls_of_pair} calls",
        "timed calls, guards on against off: {:.4f} [{:.4f}, {:.4f}]".format(*calls),
        "eager calls beside them: {:.4f} [{:.4f}, {:.4f}]".format(*eager),
        "timed calls, without regard to before: {:.4f} [{:.4f}, {:.4f}]".format(*plain),
    ]
    return calls[1] >= 0.98 and calls[2] <= 1.02


def chosen_of(sample: Sample, most: int) -> list[int]:
    """The first graphs of a sample."""
    return list(range(min(most, len(sample.graphs))))


def name_of(sample: Sample) -> str:
    """A sample's name, with its model's."""
    return f"{sample.path.parent.name}/{sample.path.name}"


if __name__ == "__main__":
    sys.exit(main())
