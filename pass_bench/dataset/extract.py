"""From a module and example inputs to graph directories: the whole model, and parts of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pass_bench.data import check_model_source, hash_of_printout, hash_of_source, write_graph
from pass_bench.dataset.capture import Captured, capture, with_statistics_of
from pass_bench.dataset.cut import Cut, Spelling, argument_metas, print_code, whole
from pass_bench.errors import BadInput

HALVES = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a graph comes from: the library, the model in it, and what kind of model that is."""

    library: str
    model: str
    heuristic_tag: str = "other"

    @property
    def path(self) -> str:
        """The key of subgraph_sources.json: samples/<lib>/<model>."""
        return f"samples/{self.library}/{self.model}"


def extract_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    out: Path | str,
    *,
    origin: Origin,
    dtype: str = "float32",
    run: bool = True,
    whole_graph: bool = False,
) -> tuple[Captured, ...]:
    """Capture a module's forward and write one graph directory per graph that Dynamo makes.

    The first goes to `out`, any further ones to `<out>_1`, ... Returns what was captured, to cut parts from.
    With `run`, statistics are measured while the module runs on the example inputs; modules on the meta
    device are only traced. `dtype` other than float32 extracts a copy of the module in that type, with the
    statistics of the module as it is.
    """
    captured = capture_as(
        module, example_inputs, name=origin.model, dtype=dtype, run=run, whole_graph=whole_graph
    )
    for position, graph in enumerate(captured):
        path = Path(out) if position == 0 else Path(f"{out}_{position}")
        write_cut(whole(graph.listing), path, origin=origin)
    return captured


def capture_as(
    module: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    name: str,
    dtype: str = "float32",
    run: bool = True,
    whole_graph: bool = False,
) -> tuple[Captured, ...]:
    """Capture a module in a given float type; see `extract_module`."""
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, Mapping) else (example_inputs, {})
    if dtype == "float32":
        return capture(module, args, kwargs, name=name, run=run, whole_graph=whole_graph)
    target: torch.dtype = getattr(torch, dtype)
    variant = copy.deepcopy(module).to(target)
    cast_args = [cast_floats(value, target) for value in args]
    cast_kwargs = {key: cast_floats(value, target) for key, value in kwargs.items()}
    traced = capture(variant, cast_args, cast_kwargs, name=name, run=False, whole_graph=whole_graph)
    if not run:
        return traced
    measured = capture(module, args, kwargs, name=name, whole_graph=whole_graph)
    if len(traced) != len(measured):
        raise BadInput(f"breaks into other graphs in {dtype}", path=name)
    return tuple(
        Captured(with_statistics_of(one.listing, other.listing), one.module, one.inputs)
        for one, other in zip(traced, measured, strict=True)
    )


def cast_floats(value: Any, dtype: torch.dtype) -> Any:
    """The value with its float32 tensors in another type, inside mappings, lists and tuples too."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.to(dtype)
    if isinstance(value, Mapping):
        return {key: cast_floats(item, dtype) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(cast_floats(item, dtype) for item in value)
    return value


def write_cut(part: Cut, path: Path | str, *, origin: Origin, constraints: str = "") -> None:
    """Write a cut as a graph directory in the published layout.

    Graphs with a float16 or bfloat16 argument are spelled as FX prints them, others as unparsed source; the
    hash follows the spelling. A part of a model names its place in subgraph_sources.json. BadInput where the
    code holds something that a model.py must not hold.
    """
    metas = argument_metas(part)
    spelling: Spelling = "fx" if any(meta.dtype in HALVES for meta in metas) else "source"
    code = print_code(part, spelling)
    check_model_source(code, Path(path) / "model.py")
    is_part = part.end - part.start < len(part.listing.statements)
    name = f"{origin.model}_start{part.start}_end{part.end}_0" if is_part else origin.model
    write_graph(
        path,
        code=code,
        metas=metas,
        info=graph_info(name, origin),
        graph_hash=hash_of_source(code) if spelling == "source" else hash_of_printout(code),
        constraints=constraints,
        sources={origin.path: [(part.start, part.end)]} if is_part else None,
    )


def graph_info(name: str, origin: Origin) -> dict[str, Any]:
    """The contents of graph_net.json."""
    return {
        "framework": "torch",
        "num_devices_required": 1,
        "num_nodes_required": 1,
        "dynamic": False,
        "model_name": name,
        "source": origin.library,
        "heuristic_tag": origin.heuristic_tag,
    }
