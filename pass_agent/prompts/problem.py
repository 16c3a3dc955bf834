"""The problem statement: the sample's graphs, what a pass is, and one pass that is similar."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jinja2

from pass_agent.evaluation.graph_source import GraphSource
from pass_agent.prompts.few_shot import Example, files_for

CODE_LIMIT = 24_000
GRAPHS_SHOWN = 24
SHAPES_SHOWN = 8


@dataclass(frozen=True)
class ShownGraph:
    listed: str
    dtypes: tuple[str, ...]
    shapes: str
    bound: str


@lru_cache(maxsize=1)
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


@dataclass(frozen=True)
class Machine:
    """Where evaluations run: "cuda" or "cpu"; `bandwidth` in GB/s where it is known."""

    device: str = "cpu"
    name: str = ""
    bandwidth: float | None = None


def problem_statement(
    task: str,
    sources: Sequence[GraphSource],
    machine: Machine,
    example: Example | None = None,
    similar: bool = True,
) -> str:
    """Render the statement; the machine's bandwidth adds each graph's memory roofline."""
    bandwidth = machine.bandwidth
    shown = sources[:GRAPHS_SHOWN]
    groups: dict[str, dict[str, Any]] = {}
    for source in shown:
        code = forward_code(source.code)
        group = groups.setdefault(_shape_free(code), {"code": _cut(code), "members": []})
        group["members"].append(_shown(source, bandwidth))
    text = _templates().get_template("problem.md.j2")
    return text.render(
        task=task,
        graphs=sources,
        groups=list(groups.values()),
        left_out=len(sources) - len(shown),
        bandwidth=bandwidth,
        device=machine.device,
        device_name=machine.name,
        example=example,
        similar=similar,
        example_files=files_for(example, machine.device) if example else {},
        example_code=forward_code(example.code) if example else "",
    )


def forward_code(code: str) -> str:
    """The body of model.py without imports and freeing statements."""
    lines = [re.sub(r";\s*[\w\s=]+= None$", "", line.rstrip()) for line in code.splitlines()]
    kept = [line for line in lines if line and not re.match(r"\s*(import |from |(\w+ = )+None$)", line)]
    return "\n".join(kept)


def _shape_free(code: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\s*:\s*torch\.Tensor", "", code))


def _cut(code: str) -> str:
    if len(code) <= CODE_LIMIT:
        return code
    return code[:CODE_LIMIT] + f"\n# ... {len(code) - CODE_LIMIT} more characters: view model.py"


def _shown(source: GraphSource, bandwidth: float | None) -> ShownGraph:
    shapes = ", ".join(f"{tensor.name}{list(tensor.shape)}" for tensor in source.tensors[:SHAPES_SHOWN])
    if len(source.tensors) > SHAPES_SHOWN:
        shapes += f" and {len(source.tensors) - SHAPES_SHOWN} more"
    bound = f"reads {source.input_bytes / 1e6:.3g} MB"
    if bandwidth:
        bound += f", at least {source.input_bytes / (bandwidth * 1e3):.3g} us"
    return ShownGraph(source.listed, source.dtypes, shapes, bound)


def render_prompts(system: str, instance: str, values: Mapping[str, str]) -> tuple[str, str]:
    """Fill `{name}` places of a configuration's prompts; other braces stay as they are."""
    for name, value in values.items():
        system = system.replace("{" + name + "}", value)
        instance = instance.replace("{" + name + "}", value)
    return system, instance
