"""The same patterns match in the graphs that torch.compile captures."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from pass_bench.data import read_graph
from pass_bench.fx import capture, graph_facts, load_module
from pass_bench.fx.extract import extract
from pass_bench.fx.groups import convex_groups
from pass_bench.fx.match import GraphView, search
from pass_bench.inputs import make_inputs

GRAPHS = [
    "gn_hf_microsoft_deberta-base",
    "gn_hf_falcon-tiny-random",
    "gn_torchgeometric_GAE",
    "gn_test_tiny-Swinv2ForImageClassification_0",
    "gn_hf_valhalla_distilbart-mnli-12-1",
]


def dynamo_view(module: torch.nn.Module, inputs: Sequence[Any]) -> GraphView:
    """The one graph that Dynamo captures, prepared for matching while its inputs are at hand."""
    views: list[GraphView] = []

    def backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
        views.append(GraphView(gm, graph_facts(gm, example_inputs)))
        return gm.forward

    torch._dynamo.reset()
    settings = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
    with torch._dynamo.config.patch(settings), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.compile(module, backend=backend)(*inputs)
    (view,) = views
    return view


@pytest.mark.parametrize("name", GRAPHS)
def test_groups_of_our_capture_match_in_dynamos_graph(shared_dir: Path, name: str) -> None:
    graph = read_graph(shared_dir / "graphs" / name)
    module, inputs = load_module(graph), make_inputs(graph)
    gm = capture(module, graph)
    ours = GraphView(gm, graph_facts(gm, inputs))
    theirs = dynamo_view(module, inputs)
    assert theirs.facts.unknown == frozenset()
    # A run-time assertion's message names nodes and symbols of the trace it was made in.
    groups = convex_groups(gm, ours.order, 6, lambda n: "_assert_scalar" not in str(n.target))
    for group in random.Random(0).sample(list(groups), 100):
        found = search(extract(group, gm).module, theirs)
        assert found.matches, (group, found.miss)
