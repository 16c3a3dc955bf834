"""Evaluate a pass set: a fresh box, the pristine sample, `bash entry.sh`, and its records read back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from pass_agent.errors import RuntimeLost
from pass_agent.evaluation.device_lock import hold_device
from pass_agent.evaluation.graph_result import GraphOutcome, Loose, all_correct, read_results, read_score
from pass_agent.evaluation.pass_set import PassSet
from pass_agent.evaluation.sample import SampleSource
from pass_agent.records import Record
from pass_agent.runtime.base import Box, Ran, Runtime
from pass_agent.text import cap, first_lines

FLOOR = 0.1  # what a graph without a usable pass counts in ES(t); a set that cannot be loaded counts it too
RESULTS, SCORE = "results.jsonl", "aggregated_score.json"

Status = Literal["scored", "unscored", "invalid", "infra"]


class Evaluation(Loose):
    """What one evaluation of one pass set gave.

    `scored`: entry.sh ended with 0 and left records and a score. `unscored`: it ended with 0, but no graph
    has a speed on this machine: Triton was interpreted on a CPU, or cannot even be. `invalid`: it refused the
    pass set (exit code 2), which counts 0.1. `infra`: our own failure; there is no score and none may be
    made up.
    """

    key: str
    pass_set: str
    sample: str
    status: Status
    score: float | None = None
    graphs: tuple[GraphOutcome, ...] = ()
    message: str = ""
    log: str = ""
    seconds: float = 0.0
    waited: float = 0.0
    device: str = ""

    @property
    def solved(self) -> bool:
        """Evaluated, and every graph correct."""
        return self.status in ("scored", "unscored") and all_correct(self.graphs)

    @property
    def rank(self) -> float | None:
        """What pass sets are compared by: the score; a correct set without one counts as fast as eager."""
        if self.status == "infra":
            return None
        return 1.0 if self.score is None and self.solved else self.score

    @property
    def rejected(self) -> bool:
        """Whether a graph was rejected for breaking an integrity rule."""
        return any(graph.verdict == "rejected" for graph in self.graphs)

    @property
    def infra(self) -> bool:
        """Whether anything in it is our failure rather than the passes'."""
        return self.status == "infra" or any(graph.verdict == "infra" for graph in self.graphs)


class EvaluatorSettings(Record):
    """`device` as PASSNET_DEVICE ("" lets entry.sh choose); `environment` goes to entry.sh as it is."""

    device: str = ""
    timeout_s: float = 1800.0
    environment: dict[str, str] = Field(default_factory=dict)


@dataclass
class Evaluator:
    """Evaluates pass sets of one sample; results are kept under `cache` by a hash of all that matters."""

    sample: SampleSource
    runtime: Runtime
    settings: EvaluatorSettings
    cache: Path
    stop: Callable[[], bool] = lambda: False
    devices: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        self.devices = self.devices or self.runtime.devices(self.settings.device)

    def key(self, pass_set: PassSet) -> str:
        """The cache key: sample, package, settings, runtime and pass set."""
        parts = [self.sample.hash, self.runtime.identity, self.settings.model_dump_json(), pass_set.hash]
        return PassSet({str(at): part.encode() for at, part in enumerate(parts)}).hash

    def cached(self, key: str) -> Evaluation | None:
        """A kept evaluation; a torn or foreign file counts as none."""
        try:
            return Evaluation.model_validate_json((self.cache / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def evaluate(self, pass_set: PassSet, fresh: bool = False) -> tuple[Evaluation, bool]:
        """Return the evaluation and whether it came from the cache.

        Waits until a device is free. One in which the harness failed on some graphs is repeated once; what
        it failed on is returned, never cached. `fresh` bypasses the cache.
        """
        key = self.key(pass_set)
        if not fresh and (kept := self.cached(key)):
            return kept, True
        asked = time.monotonic()
        with hold_device(self.devices, self.stop) as device:
            if not fresh and (kept := self.cached(key)):  # another attempt evaluated it while we waited
                return kept, True
            waited = time.monotonic() - asked
            result = self._run(key, pass_set, device)
            if result.infra and result.status != "infra":  # ours to repeat: a graph is missing from the score
                again = self._run(key, pass_set, device)
                result = result if again.status == "infra" else again
            result = result.model_copy(update={"waited": waited, "device": device})
        if not result.infra and not fresh:
            self.keep(result)
        return result, False

    def keep(self, result: Evaluation) -> None:
        """Write an evaluation under its key; readers see it whole or not at all."""
        self.cache.mkdir(parents=True, exist_ok=True)
        partial = self.cache / f".{result.key}.{os.getpid()}.{os.urandom(4).hex()}"
        partial.write_text(result.model_dump_json(), encoding="utf-8")
        partial.rename(self.cache / f"{result.key}.json")

    def _run(self, key: str, pass_set: PassSet, device: str) -> Evaluation:
        def result(status: Status, message: str = "", **more: Any) -> Evaluation:
            known = {"key": key, "pass_set": pass_set.hash, "sample": self.sample.name}
            return Evaluation.model_validate({**known, "status": status, "message": message, **more})

        try:
            box = self.runtime.open(device)
        except RuntimeLost as error:
            return result("infra", str(error))
        try:
            ran = self._enter(box, pass_set)
            files = {} if ran.lost else {name: _shown(data, box) for name, data in box.get().items()}
            ran = ran.model_copy(update={"output": _shown(ran.output.encode(), box)})
        except RuntimeLost as error:
            return result("infra", str(error))
        finally:
            box.close()
        graphs, score = read_results(files.get(RESULTS, "")), read_score(files.get(SCORE, ""))
        more: dict[str, Any] = {"graphs": graphs, "log": cap(ran.output, 8000), "seconds": ran.seconds}
        failure = _failure(ran, self.settings.timeout_s)
        if failure:
            return result("infra", failure, **more)
        if ran.code == 2:
            return result("invalid", _refusal(ran.output), score=FLOOR, **more)
        if ran.code != 0:
            return result("infra", f"entry.sh ended with {ran.code}: {_refusal(ran.output)}", **more)
        if not any(graph.scored for graph in graphs):
            ours = not graphs or any(graph.verdict == "infra" for graph in graphs)
            return result("infra", _unjudged(graphs), **more) if ours else result("unscored", **more)
        if score is None:
            return result("infra", "entry.sh ended well but left no score", **more)
        return result("scored", score=score, **more)

    def _enter(self, box: Box, pass_set: PassSet) -> Ran:
        tree: dict[str, bytes | Path] = dict(self.sample.tree())
        tree["pass_dir/.ignore"] = b""
        tree.update({f"pass_dir/{name}": content for name, content in pass_set.files.items()})
        box.put(tree)
        return box.run(["bash", f"{box.work}/entry.sh"], self.environment(box), self.settings.timeout_s)

    def environment(self, box: Box) -> Mapping[str, str]:
        """What entry.sh is told: the output folder, the device, and the user's PASSNET_* choices."""
        chosen = {"PASSNET_EVAL_OUTPUT": box.out, **self.settings.environment, **box.environment}
        if self.settings.device:
            chosen["PASSNET_DEVICE"] = self.settings.device
        return chosen


def _shown(data: bytes, box: Box) -> str:
    """Text of an evaluation with paths as the model knows them, relative to the sample."""
    return data.decode("utf-8", "replace").replace(f"{box.work}/", "")


def _failure(ran: Ran, timeout_s: float) -> str:
    if ran.lost:
        return ran.lost
    if ran.timed_out:
        return f"the evaluation did not end within {timeout_s:g} s and was stopped"
    return "the evaluation printed more than 64 MiB and was stopped" if ran.flooded else ""


def _unjudged(graphs: tuple[GraphOutcome, ...]) -> str:
    reasons = [graph.reason for graph in graphs if graph.verdict == "infra" and graph.reason]
    if not graphs:
        return "entry.sh ended well but left no records"
    return f"no graph could be scored: {reasons[0][:300]}" if reasons else "no graph could be scored"


def _refusal(output: str) -> str:
    """The line that says why: the last one, since progress comes before it."""
    lines = first_lines("\n".join(reversed(output.splitlines())), 1, 400)
    return lines[0].removeprefix("passbench: ") if lines else "no message"
