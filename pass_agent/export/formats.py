"""The formats: each takes the episodes that passed the filters and yields records."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

from pass_agent.evaluation.pass_set import load_pass_set
from pass_agent.export.episodes import Episode
from pass_agent.records import Message, Record

Example = dict[str, Any]


class FormatSettings(Record):
    """`margin`: how much higher, relatively, the chosen side of a pair scores; `pairs` at most for a task."""

    margin: float = 0.05
    pairs: int = 8


def openai(episodes: Sequence[Episode], settings: FormatSettings) -> Iterator[Example]:
    """Conversations with tools; `weight` 0 on answers that should not be learned from."""
    for episode in episodes:
        weights = iter(episode.weights())
        messages = []
        for message in episode.messages:
            kept = {key: value for key, value in message.items() if key != "reasoning_content"}
            if message["role"] == "assistant":
                kept["weight"] = next(weights)
            messages.append(kept)
        if any(message.get("weight") for message in messages):
            yield {"messages": messages, "tools": episode.tools}


def trl(episodes: Sequence[Episode], settings: FormatSettings) -> Iterator[Example]:
    """One prompt and completion for every answer worth learning; calls are text, so any template will do."""
    for episode in episodes:
        plain = plain_messages(episode)
        places = [at for at, message in enumerate(plain) if message["role"] == "assistant"]
        for at, weight in zip(places, episode.weights(), strict=True):
            if weight:
                yield {"prompt": plain[:at], "completion": [plain[at]], **_origin(episode)}


def r2e(episodes: Sequence[Episode], settings: FormatSettings) -> Iterator[Example]:
    """The trajectories as they are."""
    for episode in episodes:
        yield episode.line


def dpo(episodes: Sequence[Episode], settings: FormatSettings) -> Iterator[Example]:
    """Pairs of pass sets of one task as answers in code blocks, the form that the agent accepts.

    Whole trajectories make poor pairs: most of their text is observations, which no model wrote.
    """
    for _, group in groupby(sorted(episodes, key=lambda one: one.group), key=lambda one: one.group):
        members = list(group)
        prompt = _plain_opening(members[0])
        ranked = _ranked(members)
        pairs = 0
        for at, (score, better, episode) in enumerate(ranked):
            for lower, worse, other in ranked[at + 1 :]:
                if pairs < settings.pairs and score > lower * (1 + settings.margin):
                    pairs += 1
                    yield {
                        "prompt": prompt,
                        "chosen": [_answer(episode, better)],
                        "rejected": [_answer(other, worse)],
                        "score_chosen": score,
                        "score_rejected": lower,
                        "instance_id": episode.task,
                    }


def _ranked(episodes: list[Episode]) -> list[tuple[float, str, Episode]]:
    """Distinct evaluated pass sets with their scores, best first; what broke a rule counts nothing."""
    found: dict[str, tuple[float, str, Episode]] = {}
    for episode in episodes:
        for result in episode.evaluations:
            if result["status"] == "scored" and not result["infra"]:
                score = 0.0 if result["rejected"] else float(result["score"])
                found.setdefault(result["pass_set"], (score, result["pass_set"], episode))
    return sorted(found.values(), key=lambda one: (-one[0], one[1]))


def _answer(episode: Episode, pass_set: str) -> Message:
    files = load_pass_set(pass_set, episode.folder / "pass_sets").files
    blocks = []
    for name, content in files.items():
        language = "json" if name.endswith(".json") else "python"
        blocks.append(f"`pass_dir/{name}`\n```{language}\n{content.decode('utf-8', 'replace').rstrip()}\n```")
    return {"role": "assistant", "content": "\n\n".join(blocks) or "(no passes)"}


def grpo(episodes: Sequence[Episode], settings: FormatSettings) -> Iterator[Example]:
    """One record an attempt: its group (task and prompt), reward, per-turn rewards, advantage in the group.

    Rewards are compared as log10, as AS averages; `turn_rewards` add up to log10(reward / 0.1).
    """
    for name, group in groupby(sorted(episodes, key=lambda one: one.group), key=lambda one: one.group):
        members = [episode for episode in group if episode.reward]
        logs = [math.log10(episode.reward or 1.0) for episode in members]
        mean = sum(logs) / len(logs) if logs else 0.0
        deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / len(logs)) if logs else 0.0
        for episode, value in zip(members, logs, strict=True):
            plain = plain_messages(episode)
            yield {
                "group_id": name,
                "group_size": len(members),
                "prompt": plain[: len(episode.opening)],
                "completion": plain[len(episode.opening) :],
                "reward": episode.reward,
                "turn_rewards": episode.turn_rewards(),
                "advantage": (value - mean) / (deviation + 1e-6) if deviation else 0.0,
                **_origin(episode),
            }


def plain_messages(episode: Episode) -> list[Message]:
    """The conversation with user and assistant only: calls in their markup, results as the user's words."""
    steps = iter(episode.steps)
    plain: list[Message] = []
    for message in episode.messages:
        role, content = message["role"], str(message.get("content") or "")
        if role == "assistant":
            action = next(steps)["action"] if message.get("tool_calls") else next(steps) and ""
            text = "\n\n".join(part for part in (content, action) if part)
            plain.append({"role": "assistant", "content": text})
        elif role == "tool" and plain[-1]["role"] == "user":
            plain[-1] = {"role": "user", "content": f"{plain[-1]['content']}\n\n{content}"}
        else:
            plain.append({"role": "user" if role == "tool" else role, "content": content})
    return plain


def _plain_opening(episode: Episode) -> list[Message]:
    return plain_messages(episode)[: len(episode.opening)]


def _origin(episode: Episode) -> Example:
    return {"instance_id": episode.task, "attempt": episode.attempt, "score": episode.reward}


FORMATS: dict[str, Callable[[Sequence[Episode], FormatSettings], Iterator[Example]]] = {
    "openai": openai,
    "trl": trl,
    "r2e": r2e,
    "dpo": dpo,
    "grpo": grpo,
}


def example_key(example: Example) -> str:
    """What makes two examples the same: their text, whatever run or time they come from."""
    fields = ("messages", "prompt", "completion", "chosen", "rejected", "output_patch", "group_id")
    kept = {name: example[name] for name in fields if name in example}
    if "group_id" in example:  # attempts that say the same still count twice in their group
        kept["attempt"] = example["attempt"]
    if "trajectory_steps" in example:
        kept["actions"] = [step["action"] for step in example["trajectory_steps"]]
        kept["task"] = example["ds"]["instance_id"]
    return json.dumps(kept, sort_keys=True)
