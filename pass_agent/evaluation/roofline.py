"""How close a graph is to the least time that moving its data takes."""

from __future__ import annotations

import re

from pass_agent.evaluation.graph_result import GraphOutcome
from pass_agent.evaluation.graph_source import GraphSource, tensor_bytes
from pass_agent.records import Record

# Peak memory bandwidth in GB/s from the makers' data sheets.
BANDWIDTH: tuple[tuple[str, float], ...] = (
    (r"B200", 8000.0),
    (r"H200", 4800.0),
    (r"H100.*PCIe", 2000.0),
    (r"H100", 3350.0),
    (r"H20\b", 4000.0),
    (r"A100.*80GB", 2039.0),
    (r"A100", 1555.0),
    (r"L40S", 864.0),
    (r"\bL4\b", 300.0),
    (r"A10G?\b", 600.0),
    (r"V100", 900.0),
    (r"\bT4\b", 320.0),
    (r"RTX 4090", 1008.0),
    (r"RTX 3090", 936.0),
)
# Below this end-to-end time a call on a GPU is launch, check and synchronise, and no kernel can help.
OVERHEAD_US = 16.0
AT_ROOFLINE = 0.9
BELIEVABLE = 1.1  # a larger share says that not all counted bytes are really moved


class Roofline(Record):
    """Shares of one graph's time; None where they cannot be known."""

    bound_us: float | None = None  # every argument read once, every output written once
    share: float | None = None  # bound / time of the compiled graph
    launch_share: float | None = None  # part of the end-to-end time in which the device had nothing to do


def peak_bandwidth(device_name: str, stated: float = 0.0) -> float | None:
    """GB/s of a device by name; `stated` by the user wins; None where unknown, as for CPUs."""
    if stated:
        return stated
    for pattern, value in BANDWIDTH:
        if re.search(pattern, device_name):
            return value
    return None


def measure(graph: GraphOutcome, source: GraphSource | None, stated: float = 0.0) -> Roofline:
    """Relate one graph's times to its bytes.

    bound = (bytes of the arguments + bytes of the outputs) / peak bandwidth. Compute-bound graphs stay far
    from it; graphs that read only a part of an argument may pass it.
    """
    if graph.interpreted or graph.e2e is None:
        return Roofline()
    e2e = graph.e2e.compiled.median_us
    device = graph.device_time.compiled.median_us if graph.device_time else None
    launch = max(0.0, 1 - device / e2e) if device and e2e else None
    bandwidth = peak_bandwidth(graph.device_name, stated)
    if source is None or bandwidth is None:
        return Roofline(launch_share=launch)
    outputs = {
        tensor.where: tensor_bytes(tensor.shape, tensor.compiled_dtype or tensor.dtype)
        for regime in graph.regimes
        for tensor in regime.tensors
        if tensor.where.startswith("output")
    }
    bound = (source.input_bytes + sum(outputs.values())) / (bandwidth * 1e3)
    time = device or e2e
    return Roofline(bound_us=bound, share=bound / time if time else None, launch_share=launch)


def early_stop(graphs: tuple[GraphOutcome, ...], rooflines: tuple[Roofline, ...]) -> str:
    """`at_roofline` or `overhead_bound` where every scored graph is correct and so; else ""."""
    scored = [(graph, line) for graph, line in zip(graphs, rooflines, strict=True) if graph.scored]
    if not scored or not all(graph.correct for graph, _ in scored):
        return ""
    if all(line.share is not None and AT_ROOFLINE <= line.share <= BELIEVABLE for _, line in scored):
        return "at_roofline"
    if all(_overhead_bound(graph, line) for graph, line in scored):
        return "overhead_bound"
    return ""


def _overhead_bound(graph: GraphOutcome, line: Roofline) -> bool:
    if graph.device != "cuda" or graph.e2e is None or graph.interpreted:
        return False
    mostly_launch = line.launch_share is None or line.launch_share > 0.5
    return graph.e2e.compiled.median_us <= OVERHEAD_US and mostly_launch
