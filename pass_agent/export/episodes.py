"""Trajectories and their conversations as training data sees them: turns, scores, weights."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pass_agent.errors import BadInput
from pass_agent.evaluation.evaluator import FLOOR
from pass_agent.records import Message


@dataclass(frozen=True)
class Episode:
    """One attempt: its trajectory line, its messages and tools, and the folder of its run."""

    line: dict[str, Any]
    messages: list[Message]
    tools: list[dict[str, Any]]
    folder: Path

    @property
    def task(self) -> str:
        return str(self.line["ds"]["instance_id"])

    @property
    def attempt(self) -> int:
        return int(self.line["agent_args"]["attempt"])

    @property
    def identity(self) -> tuple[str, str, int, str]:
        """What tells attempts apart: run, task, number, and what was done."""
        actions = "".join(step["action"] for step in self.steps)
        digest = hashlib.sha256(actions.encode()).hexdigest()
        return str(self.line["exp_name"]), self.task, self.attempt, digest

    @property
    def reward(self) -> float | None:
        value = self.line["reward"]
        return None if value is None else float(value)

    @property
    def steps(self) -> list[dict[str, Any]]:
        return list(self.line["trajectory_steps"])

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [result for step in self.steps for result in step["info"]["evaluations"]]

    @property
    def infra(self) -> bool:
        """Whether the harness failed in it."""
        return any(result["infra"] for result in self.evaluations)

    @property
    def rejected(self) -> bool:
        return any(result["rejected"] for result in self.evaluations)

    @property
    def improved(self) -> bool:
        """Whether the best score is above the first one."""
        scores = [result["score"] for result in self.evaluations if result["score"] is not None]
        return self.reward is not None and bool(scores) and self.reward > scores[0]

    @property
    def graph_hashes(self) -> frozenset[str]:
        return frozenset(self.line["env_args"].get("graph_hashes", ()))

    @cached_property
    def group(self) -> str:
        """The task and what it began with: attempts compare only where they were asked the same."""
        opening = json.dumps(self.opening, sort_keys=True)
        return f"{self.task}:{hashlib.sha256(opening.encode()).hexdigest()[:8]}"

    @cached_property
    def opening(self) -> list[Message]:
        """The messages before the first answer."""
        at = next(
            (i for i, one in enumerate(self.messages) if one["role"] == "assistant"), len(self.messages)
        )
        return self.messages[:at]

    def best_after(self) -> list[float]:
        """The best score after each step; the floor before any evaluation."""
        best, found = FLOOR, []
        for step in self.steps:
            scores = [
                result["score"] for result in step["info"]["evaluations"] if result["score"] is not None
            ]
            best = max([best, *scores])
            found.append(best)
        return found

    def turn_rewards(self) -> list[float]:
        """log10 of the factor by which each step raised the best score; they add up to log10(best / 0.1)."""
        before = [FLOOR, *self.best_after()[:-1]]
        return [math.log10(now / then) for then, now in zip(before, self.best_after(), strict=True)]

    def weights(self) -> list[int]:
        """1 for turns worth learning: up to the step of the best score, with a call that did something."""
        rewards = self.turn_rewards()
        last = max((at for at, reward in enumerate(rewards) if reward > 0), default=-1)
        return [int(at <= last and _useful(step)) for at, step in enumerate(self.steps)]


def _useful(step: dict[str, Any]) -> bool:
    observations = step["info"]["observations"]
    return bool(observations) and not all(one["failed"] for one in observations)


def read_episodes(path: Path) -> Iterator[Episode]:
    """Read `<exp>.jsonl` with `<exp>_completions.jsonl` beside it.

    Raises BadInput where the second is missing, lacks an attempt, or a line is not a trajectory.
    """
    conversations = path.with_name(f"{path.stem}_completions.jsonl")
    found = {(one["instance_id"], one["attempt"]): one for one in _lines(conversations)}
    for line in _lines(path):
        try:
            key = (line["ds"]["instance_id"], line["agent_args"]["attempt"])
            beside = found[key]
        except KeyError as error:
            raise BadInput(
                f"a trajectory without its conversation, or none at all: {error}", path=path
            ) from error
        yield Episode(line, beside["messages"], beside["tools"], path.with_suffix(""))


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        raise BadInput("no such file", path=path)
    found = []
    content = path.read_bytes()
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise BadInput(f"not JSON: {error}", path=path, line=number) from error
    return found
