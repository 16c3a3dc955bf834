"""The agent's configuration file, in the published keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from pass_agent.errors import BadInput
from pass_agent.records import Record

DEFAULT = Path(__file__).parent.parent / "configs" / "pass_agent.yaml"


class AgentConfig(Record):
    """`instance_prompt` holds `{problem_statement}`; `command_files` name the tools by their stems."""

    system_prompt: str
    instance_prompt: str
    command_files: tuple[str, ...] = ("file_editor", "pass_evaluator", "check", "analyze", "submit")
    llm_name: str = ""
    llm_base_url: str = ""
    demo_file: str = ""  # accepted, not used
    other_args: dict[str, Any] = Field(default_factory=dict)


def read_config(path: Path) -> AgentConfig:
    """Read a configuration; raises BadInput naming the first key that is wrong."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"no such configuration ({error.strerror})", path=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"not YAML: {str(error).splitlines()[0]}", path=path) from error
    try:
        config = AgentConfig.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise BadInput(f"{where}: {first['msg']}", path=path) from error
    if "{problem_statement}" not in config.instance_prompt:
        raise BadInput("instance_prompt must hold {problem_statement}", path=path)
    return config


def other_number(config: AgentConfig, name: str, default: float) -> float:
    """A number from `other_args`; raises BadInput if it is something else."""
    value = config.other_args.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadInput(f"other_args.{name} must be a number, not {value!r}")
    return float(value)
