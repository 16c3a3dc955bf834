"""Capture a call in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pass_bench.errors import HarnessFailure
from pass_bench.runtime.recorded import Launch


@dataclass(frozen=True)
class Recorded:
    """The outputs of a recorded call, and what replays it: `launch` without torch, where that can be."""

    outputs: Any
    replay: Callable[[], None]
    launch: Launch | None = None


def record_cuda(function: Callable[..., Any], arguments: Sequence[Any]) -> Recorded:
    """Capture a call in a CUDA graph with memory of its own.

    Nothing runs before the first replay. Raises RuntimeError where the call does what cannot be captured.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(*arguments)
    if getattr(graph, "_tracker", None) is not None:  # its Python method has something to look at first
        return Recorded(outputs, graph.replay)
    return Recorded(outputs, super(torch.cuda.CUDAGraph, graph).replay, _launch_of(graph))


def _launch_of(graph: torch.cuda.CUDAGraph) -> Launch | None:
    handle = getattr(graph, "raw_cuda_graph_exec", None)  # torch 2.10 and later
    try:
        return None if handle is None else Launch.of(handle())
    except (HarnessFailure, RuntimeError):
        return None


def random_numbers_drawn() -> list[int]:
    """By each GPU's generator."""
    return [int(x.get_offset()) for x in torch.cuda.default_generators] if torch.cuda.is_initialized() else []


def random_state_kept(inputs: Sequence[Any]) -> Any:
    """Put the generators of the CPU and of these tensors' devices back afterwards."""
    devices = {value.device.index for value in inputs if isinstance(value, torch.Tensor) and value.is_cuda}
    return torch.random.fork_rng(devices=sorted(devices))
