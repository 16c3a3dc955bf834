"""Every connected, convex group of nodes of the shared graphs matches itself and can stand in for itself.

`full` takes all groups of 1 to 6 nodes; the normal run a seeded slice of them.
"""

from __future__ import annotations

import copy
import functools
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from pass_bench.data import read_graph
from pass_bench.fx import Match, capture, graph_facts, load_module, trace_pattern
from pass_bench.fx.extract import extract
from pass_bench.fx.groups import connected_groups, convex_groups
from pass_bench.fx.match import GraphView, search
from pass_bench.fx.plan import Pattern
from pass_bench.fx.replacement import Arguments, trace_arguments
from pass_bench.fx.rewrite import Replacement, replace
from pass_bench.fx.source import to_python
from pass_bench.inputs import make_inputs

LARGEST = 6
SHARED_GRAPHS = Path(__file__).resolve().parents[3] / "shared" / "graphs"
NAMES = sorted(p.name for p in SHARED_GRAPHS.glob("gn_*")) or ["missing"]
DOES_NOT_RUN = "gn_test_mobilenetv4_swapped_meta"  # its recorded shapes are permuted
SLOW = ("gn_torchvision_mc3_18",)  # seconds a run: executed in the full run only
CONNECTED, CONVEX = 94_436, 40_543

Group = list[fx.Node]


@dataclass
class Prepared:
    name: str
    gm: fx.GraphModule
    inputs: list[Any]
    view: GraphView
    groups: list[Group]


def traceable(node: fx.Node) -> bool:
    return node.target is not torch._C._log_api_usage_once


@pytest.fixture
def prepared(request: pytest.FixtureRequest, shared_dir: Path) -> Prepared:
    graph = read_graph(shared_dir / "graphs" / request.param)
    gm = capture(load_module(graph), graph)
    inputs = make_inputs(graph, "random", seed=7)
    view = GraphView(gm, graph_facts(gm, inputs))
    return Prepared(request.param, gm, inputs, view, list(convex_groups(gm, view.order, LARGEST, traceable)))


def misses_itself(group: Group, at: Prepared) -> str:
    """Why the group, as a graph, is not among its own matches; empty if it is."""
    cut = extract(group, at.gm)
    found = search(cut.module, at.view)
    if any(all(match.nodes[cut.image[n]] is n for n in group) for match in found.matches):
        return ""
    return f"{group}: {found.miss or found.stopped or 'others only'}"


def misses_itself_as_text(group: Group, at: Prepared) -> str:
    """The same through Python: the group is written as a function and traced back."""
    scope: dict[str, Any] = {}
    exec(to_python(extract(group, at.gm).module), scope)
    pattern = trace_pattern(scope["pattern"])
    found = search(pattern, at.view)
    size = sum(n.op.startswith("call") for n in pattern.graph.nodes)
    if size == len(group) and any(match.matched == set(group) for match in found.matches):
        return ""
    return f"{group}: {found.miss or found.stopped or 'others only'}"


def stands_for_itself(group: Group, gm: fx.GraphModule) -> Replacement:
    cut = extract(group, gm)
    pattern = Pattern(cut.module)
    match = Match(
        {cut.image[n]: n for n in group}, dict(zip(pattern.placeholders, cut.arguments, strict=True))
    )
    return Replacement(pattern, match, all_arguments(len(cut.arguments)), callable_of(cut.module))


@functools.cache
def all_arguments(count: int) -> Arguments:
    return trace_arguments(lambda *args: args, count)


def callable_of(module: fx.GraphModule) -> Callable[..., Any]:
    def group(*args: Any) -> Any:
        return module(*args)

    return group


def batches(at: Prepared, groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Split groups into sets that can be replaced in one graph: disjoint, and convex beside each other."""
    left = [(at.view.order.mask(group), group) for group in groups]
    while left:
        order = copy.copy(at.view.order)
        order.descendants, order.ancestors = list(order.descendants), list(order.ancestors)
        taken, chosen, rest = 0, [], []
        for mask, group in left:
            if mask & taken or order.between(mask):
                rest.append((mask, group))
                continue
            order.contract(mask)
            taken |= mask
            chosen.append(group)
        left = rest
        yield chosen


def run(gm: fx.GraphModule, inputs: Sequence[Any]) -> list[Any]:
    """Outputs and inputs after one seeded run on fresh inputs."""
    fresh = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = gm(*fresh)
    return tree_leaves((outputs, fresh))


def same(one: Sequence[Any], two: Sequence[Any]) -> bool:
    """Bit-equal, NaN where NaN is."""
    return len(one) == len(two) and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
        if isinstance(a, torch.Tensor)
        else a == b
        for a, b in zip(one, two, strict=True)
    )


def check_replacement(at: Prepared, groups: Sequence[Group]) -> int:
    """Replace every group by itself and run; return the number of graphs executed."""
    expected = run(at.gm, at.inputs)
    count = 0
    for batch in batches(at, groups):
        done, _ = replace(at.gm, at.view.facts, [stands_for_itself(group, at.gm) for group in batch])
        calls = [n for n in done.graph.nodes if getattr(n.target, "__name__", "") == "group"]
        assert len(calls) == len(batch)
        assert same(run(done, at.inputs), expected), batch
        count += 1
    return count


@pytest.mark.parametrize("prepared", NAMES, indirect=True)
def test_a_slice_of_the_groups_matches_itself_and_is_replaced(prepared: Prepared) -> None:
    rng = random.Random(0)
    some = rng.sample(prepared.groups, min(30, len(prepared.groups)))
    assert [why for group in some if (why := misses_itself(group, prepared))] == []
    assert [why for group in some[:10] if (why := misses_itself_as_text(group, prepared))] == []
    if prepared.name not in (DOES_NOT_RUN, *SLOW):
        check_replacement(prepared, next(batches(prepared, some)))


def test_only_the_graph_with_permuted_shapes_does_not_run(shared_dir: Path) -> None:
    graph = read_graph(shared_dir / "graphs" / DOES_NOT_RUN)
    gm = capture(load_module(graph), graph)
    with pytest.raises(RuntimeError, match="weight should have at least three dimensions"):
        run(gm, make_inputs(graph))


@pytest.mark.full
@pytest.mark.parametrize("prepared", NAMES, indirect=True)
def test_every_group_matches_itself_as_a_graph(prepared: Prepared) -> None:
    assert [why for group in prepared.groups if (why := misses_itself(group, prepared))] == []


@pytest.mark.full
@pytest.mark.parametrize("prepared", NAMES, indirect=True)
def test_small_groups_and_some_others_match_themselves_as_text(prepared: Prepared) -> None:
    small = [group for group in prepared.groups if len(group) <= 2]
    some = random.Random(1).sample(prepared.groups, min(200, len(prepared.groups)))
    assert [why for group in small + some if (why := misses_itself_as_text(group, prepared))] == []


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("prepared", [n for n in NAMES if n != DOES_NOT_RUN], indirect=True)
def test_every_group_replaced_by_itself_keeps_outputs_and_mutations(prepared: Prepared) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert check_replacement(prepared, prepared.groups) > 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.full
def test_the_number_of_groups(shared_dir: Path) -> None:
    connected = convex = 0
    for name in NAMES:
        graph = read_graph(shared_dir / "graphs" / name)
        gm = capture(load_module(graph), graph)
        view = GraphView(gm, graph_facts(gm, make_inputs(graph)))
        for group in connected_groups(gm, LARGEST, traceable):
            connected += 1
            convex += not view.order.between(view.order.mask(group))
    assert (connected, convex) == (CONNECTED, CONVEX)


@pytest.mark.full
@pytest.mark.parametrize("prepared", NAMES, indirect=True)
def test_groups_that_are_not_convex_do_not_match_themselves(prepared: Prepared) -> None:
    order = prepared.view.order
    crossed = [
        group
        for group in connected_groups(prepared.gm, LARGEST, traceable)
        if order.between(order.mask(group))
    ]
    for group in random.Random(2).sample(crossed, min(500, len(crossed))):
        assert misses_itself(group, prepared)
