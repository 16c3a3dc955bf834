"""What tools need from outside: evaluations and pass_bench commands, live or as they were recorded."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pass_agent.errors import RuntimeLost
from pass_agent.evaluation.device_lock import hold_device
from pass_agent.evaluation.evaluator import Evaluation, Evaluator
from pass_agent.evaluation.pass_set import PassSet
from pass_agent.runtime.base import Ran, Runtime

CHECK_TIMEOUT_S = 300.0
# The package beside the sample, as entry.sh takes it; else what is installed.
LAUNCH = (
    'if [ ! -d pass_bench ] && command -v passbench >/dev/null 2>&1; then exec passbench "$@"; fi; '
    'PYTHONPATH="$PWD" exec "${PASSNET_PYTHON:-python3}" -P -m pass_bench "$@"'
)


class Outside(Protocol):
    """Everything that a tool cannot compute from the workspace alone."""

    def evaluate(self, pass_set: PassSet) -> Evaluation:
        """Evaluate a pass set; a kept result counts as well as a new one."""

    def command(self, name: str, pass_set: PassSet) -> str:
        """Output of `passbench NAME SAMPLE`; raises RuntimeLost where it could not run."""


@dataclass
class Live:
    """Asks the evaluator and the runtime."""

    evaluator: Evaluator

    def evaluate(self, pass_set: PassSet) -> Evaluation:
        result = self.evaluator.evaluate(pass_set)[0]
        if result.infra:  # kept for the record, under a key that nobody else asks for
            result = result.model_copy(update={"key": f"infra-{uuid.uuid4().hex}"})
            self.evaluator.keep(result)
        return result

    def command(self, name: str, pass_set: PassSet) -> str:
        evaluator = self.evaluator
        tree: dict[str, bytes | Path] = dict(evaluator.sample.tree())
        tree.update({f"pass_dir/{file}": content for file, content in pass_set.files.items()})
        if name == "analyze":  # it measures, so it takes its turn
            with hold_device(evaluator.devices, evaluator.stop) as device:
                ran = self._in_box(name, tree, device)
        else:
            ran = self._in_box(name, tree, "")
        if ran.lost:
            raise RuntimeLost(ran.lost)
        note = f"\n({name} was stopped after {CHECK_TIMEOUT_S:g} s)" if ran.timed_out else ""
        return (ran.output.strip() or "(no output)") + note

    def _in_box(self, name: str, tree: Mapping[str, bytes | Path], held: str) -> Ran:
        box = self.evaluator.runtime.open(held)
        try:
            box.put({"pass_dir/.ignore": b"", **tree})
            environment = self.evaluator.environment(box)
            device = "cpu" if self.evaluator.devices == ("cpu",) else "cuda"
            argv = ["sh", "-c", LAUNCH, "sh", name, ".", "--device", device]
            ran = box.run(argv, environment, CHECK_TIMEOUT_S)
            return ran.model_copy(update={"output": ran.output.replace(f"{box.work}/", "")})
        finally:
            box.close()


@dataclass
class Recorded:
    """Gives what one recorded step got: its evaluations in order, and the texts of its commands by name."""

    evaluations: list[Evaluation]
    texts: Mapping[str, list[str]]

    def evaluate(self, pass_set: PassSet) -> Evaluation:
        if not self.evaluations:
            raise RuntimeLost("the journal holds no evaluation for this step")
        return self.evaluations.pop(0)

    def command(self, name: str, pass_set: PassSet) -> str:
        return self.texts[name].pop(0)


def find_commands(runtime: Runtime, sample_tree: Mapping[str, Path]) -> frozenset[str]:
    """Which optional commands the pass_bench of this sample and runtime has."""
    found = set()
    box = runtime.open()
    try:
        box.put(sample_tree)
        for name in ("check", "analyze"):
            ran = box.run(["sh", "-c", LAUNCH, "sh", name, "--help"], {}, 60)
            if ran.code == 0 and not ran.lost:
                found.add(name)
    finally:
        box.close()
    return frozenset(found)
