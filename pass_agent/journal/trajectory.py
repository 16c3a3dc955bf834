"""A journal as a trajectory in R2E-Gym's field names, and as a conversation."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pass_agent.agent.state import reply_messages
from pass_agent.evaluation.evaluator import Evaluation
from pass_agent.evaluation.pass_set import PassSet
from pass_agent.journal.log import Start, Told
from pass_agent.model.parse import assistant_message
from pass_agent.records import Message, Step, ToolCall


def action_text(calls: tuple[ToolCall, ...]) -> str:
    """Calls in R2E-Gym's markup."""
    texts = []
    for call in calls:
        parameters = "".join(
            f"\n<parameter={name}>{value if isinstance(value, str) else json.dumps(value)}</parameter>"
            for name, value in call.arguments.items()
        )
        texts.append(f"<function={call.name}>{parameters}\n</function>")
    return "\n".join(texts)


def conversation(start: Start, steps: list[Step], max_steps: int) -> list[Message]:
    """All messages of an attempt as the model saw them, its own included."""
    messages = list(start.messages)
    for step in steps:
        messages.append(assistant_message(step.reply, "reasoning_content"))
        messages += reply_messages(step, max_steps - step.index - 1)
    return messages


def trajectory(
    told: Told, exp_name: str, best: PassSet | None, evaluations: Mapping[str, Evaluation]
) -> dict[str, Any]:
    """One line of `<exp>.jsonl`; times in seconds. Needs a journal that has an end.

    `evaluations`: the recorded ones by key; their scores stand beside the steps that asked for them.
    """
    start, ended = told.start, told.ended
    if start is None or ended is None:
        raise ValueError("a trajectory needs a start and an end")
    agent = start.agent
    limits = agent.get("limits", {})
    return {
        "trajectory_steps": _steps(told.steps, evaluations),
        "problem_statement": start.problem_statement,
        "docker_image": start.task.docker_image,
        "exp_name": exp_name,
        "env_args": {
            "ds": start.task.model_dump(),
            **start.environment,
            "sample_hash": start.sample_hash,
            "graph_hashes": list(start.graph_hashes),
        },
        "agent_args": {**agent, "attempt": start.attempt, "tools": list(start.tools)},
        "ds": start.task.model_dump(),
        "max_steps": limits.get("max_steps"),
        "max_steps_absolute": limits.get("max_steps"),
        "max_token_limit": limits.get("max_token_limit"),
        "max_llm_time": limits.get("max_llm_time"),
        "max_exec_time": limits.get("max_exec_time"),
        "max_total_time": limits.get("max_total_time"),
        "exit_reason": ended.reason,
        "exit_detail": ended.detail,
        "early_stop": ended.early_stop,
        "output_patch": _patch(start.start_files, best) if best else "",
        "reward": ended.reward,
        "reward_note": ended.reward_note,
        "solved": ended.solved,
        "best_pass_set": ended.best_pass_set,
        "test_output": evaluations[ended.best_evaluation].log if ended.best_evaluation else "",
        "system_prompt": str(start.messages[0]["content"]) if start.messages else "",
    }


def _steps(steps: list[Step], evaluations: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    return [
        {
            "step_idx": step.index,
            "thought": step.reply.content,
            "action": action_text(step.reply.calls),
            "observation": "\n\n".join(one.text for one in step.observations) or step.message,
            "done": step is steps[-1],
            "info": {
                "reasoning": step.reply.reasoning,
                "finish_reason": step.reply.finish_reason,
                "note": step.reply.note,
                "tries": step.reply.tries,
                "cost": step.reply.usage.cost,
                "calls": [call.model_dump() for call in step.reply.calls],
                "observations": [one.model_dump() for one in step.observations],
                "pass_set": step.pass_set,
                "evaluations": [_short(evaluations[key]) for key in step.evaluations],
            },
            "token_usage_prompt": step.reply.usage.prompt,
            "token_usage_completion": step.reply.usage.completion,
            "token_usage_total": step.reply.usage.total,
            "llm_exec_time": step.reply.seconds,
            "env_exec_time": step.env_seconds,
            "total_step_time": step.reply.seconds + step.env_seconds,
            "total_time_traj": step.elapsed,
            "step_count": step.index + 1,
        }
        for step in steps
    ]


def _short(result: Evaluation) -> dict[str, Any]:
    """An evaluation as training data needs it."""
    kept = result.model_dump(include={"key", "pass_set", "status", "score", "message", "seconds"})
    verdicts = [graph.verdict for graph in result.graphs]
    flags = {"solved": result.solved, "rejected": result.rejected, "infra": result.infra}
    return {**kept, **flags, "verdicts": verdicts}


def _patch(start_files: dict[str, str], best: PassSet) -> str:
    """A unified diff of pass_dir, from the beginning to the best pass set."""
    after = {name: content.decode("utf-8", "replace") for name, content in best.files.items()}
    parts = []
    for name in sorted(start_files.keys() | after.keys()):
        old, new = start_files.get(name), after.get(name)
        if old == new:
            continue
        before_name = f"a/pass_dir/{name}" if old is not None else "/dev/null"
        after_name = f"b/pass_dir/{name}" if new is not None else "/dev/null"
        lines = difflib.unified_diff(
            (old or "").splitlines(keepends=True),
            (new or "").splitlines(keepends=True),
            before_name,
            after_name,
        )
        text = "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )
        parts.append(f"diff --git a/pass_dir/{name} b/pass_dir/{name}\n{text}")
    return "".join(parts)


def read_trajectories(path: Path) -> list[dict[str, Any]]:
    """Read `<exp>.jsonl`; a torn last line is dropped, another bad line raises ValueError with its number."""
    found = []
    content = path.read_bytes()
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        try:
            found.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: not JSON") from error
    return found
