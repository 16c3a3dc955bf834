"""What a run came to: pass@N, best@N, exit reasons, cost."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from pass_agent.records import Ended, Record


class TaskSummary(Record):
    """One task: rewards by attempt, None where there is none."""

    instance_id: str
    rewards: tuple[float | None, ...]
    solved: tuple[bool, ...]
    exit_reasons: tuple[str, ...]
    best: float | None
    best_pass_set: str = ""


class Summary(Record):
    """Over all tasks; `pass_at[k]` and `best_at[k]` for k attempts out of N.

    pass@k: probability that one of k attempts drawn without replacement solves the task (every graph
    correct), 1 - C(n - c, k) / C(n, k) for c solved of n. best@k: the geometric mean over tasks of the
    expected best reward of k attempts drawn the same way. Attempts without a reward count as not solved in
    pass@k and are left out of best@k.
    """

    tasks: tuple[TaskSummary, ...]
    attempts: int
    pass_at: dict[int, float]
    best_at: dict[int, float]
    exit_reasons: dict[str, int]
    without_reward: int
    cost: float
    tokens: int


def summarize(
    names: Sequence[str],
    attempts: int,
    results: Mapping[tuple[str, int], Ended],
    cost: float,
    tokens: int,
) -> Summary:
    """Sum up a run's attempts."""
    tasks = tuple(_task(name, [results[name, at] for at in range(attempts)]) for name in names)
    reasons = Counter(reason for task in tasks for reason in task.exit_reasons)
    rewards = [[reward for reward in task.rewards if reward is not None] for task in tasks]
    solved = [sum(task.solved) for task in tasks]
    pass_at = {k: _mean([pass_at_k(attempts, c, k) for c in solved]) for k in range(1, attempts + 1)}
    best_at = {}
    for k in range(1, attempts + 1):
        expected = [expected_best(have, k) for have in rewards if len(have) >= k]
        positive = [value for value in expected if value > 0]
        if positive:
            best_at[k] = math.exp(_mean([math.log(value) for value in positive]))
    return Summary(
        tasks=tasks,
        attempts=attempts,
        pass_at=pass_at,
        best_at=best_at,
        exit_reasons=dict(sorted(reasons.items())),
        without_reward=sum(reward is None for task in tasks for reward in task.rewards),
        cost=cost,
        tokens=tokens,
    )


def _task(name: str, ended: list[Ended]) -> TaskSummary:
    worth = [end for end in ended if end.reward is not None]
    best = max(worth, key=lambda end: end.reward or 0.0, default=None)
    return TaskSummary(
        instance_id=name,
        rewards=tuple(end.reward for end in ended),
        solved=tuple(end.solved for end in ended),
        exit_reasons=tuple(end.reason for end in ended),
        best=best.reward if best else None,
        best_pass_set=best.best_pass_set if best else "",
    )


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k): the unbiased estimator of Chen et al., 2021."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def expected_best(rewards: Sequence[float], k: int) -> float:
    """Expected maximum of k of the rewards, drawn without replacement; needs at least k of them."""
    ordered = sorted(rewards)
    total = math.comb(len(ordered), k)
    return sum(value * math.comb(at, k - 1) for at, value in enumerate(ordered) if at >= k - 1) / total


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def write_summary(summary: Summary, path: Path) -> None:
    """Write the summary; readers see it whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(summary.model_dump_json(indent=2), encoding="utf-8")
    partial.replace(path)


def describe_summary(summary: Summary) -> str:
    """A few lines for people."""
    reasons = ", ".join(f"{name} {count}" for name, count in summary.exit_reasons.items())
    lines = [f"{len(summary.tasks)} tasks, {summary.attempts} attempts each; ended by: {reasons}"]
    for k in summary.pass_at:
        best = f", best@{k} {summary.best_at[k]:.4g}" if k in summary.best_at else ""
        lines.append(f"pass@{k} {summary.pass_at[k]:.1%}{best}")
    if summary.without_reward:
        lines.append(
            f"{summary.without_reward} attempts have no reward: see reward_note in their trajectories"
        )
    lines.append(f"{summary.tokens} tokens, {summary.cost:.4f} USD")
    return "\n".join(lines)
