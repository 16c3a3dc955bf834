"""The tools as the model is told about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from pass_agent.errors import BadInput
from pass_agent.tools.file_editor import SCHEMA

OPTIONAL = ("check", "analyze")  # offered only where the installed pass_bench has the command


def _plain(name: str, description: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": []}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


SCHEMAS: dict[str, dict[str, Any]] = {
    "file_editor": SCHEMA,
    "pass_evaluator": _plain(
        "pass_evaluator",
        "Evaluate the passes in pass_dir/ on every graph of the sample: whether they match, whether outputs "
        "are right, how fast the graphs are, and the score. Takes no arguments.",
    ),
    "check": _plain(
        "check",
        "Check the passes in pass_dir/ in seconds and without timing: source rules, loading, matching.",
    ),
    "analyze": _plain("analyze", "Show where the time of the sample's graphs goes and what bounds it."),
    "submit": _plain(
        "submit",
        "End the task. The best pass set that was evaluated counts, not necessarily the last one.",
    ),
}


def choose_tools(command_files: Sequence[str], commands: frozenset[str]) -> list[dict[str, Any]]:
    """The schemas of the tools named by a configuration's `command_files` (paths whose stems are names).

    `commands`: what the installed pass_bench offers. Raises BadInput for a name that is no tool.
    """
    chosen: dict[str, dict[str, Any]] = {}
    for file in command_files:
        name = PurePosixPath(file).stem
        if name not in SCHEMAS:
            raise BadInput(f"command_files: no tool {name}; there are {', '.join(SCHEMAS)}")
        if name not in OPTIONAL or name in commands:
            chosen[name] = SCHEMAS[name]
    if not {"file_editor", "pass_evaluator"} <= set(chosen):
        raise BadInput("command_files must name file_editor and pass_evaluator")
    return list(chosen.values())
