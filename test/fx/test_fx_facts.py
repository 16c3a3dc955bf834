"""What nodes write, share and draw, from fake execution and from schemas alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from pass_bench.data import read_graph
from pass_bench.fx import Facts, capture, graph_facts, load_module, trace_pattern
from pass_bench.inputs import make_inputs


def edges(function: Callable[..., Any], *inputs: Any) -> set[tuple[str, str]]:
    """Order edges between call nodes by name."""
    gm = trace_pattern(function)
    facts = graph_facts(gm, inputs if inputs else None)
    assert not facts.unknown
    return {(a.name, b.name) for a, b in facts.order_edges(gm.graph)}


def test_a_graph_without_effects_has_no_order() -> None:
    def target(x):
        a = x.view(-1)
        b = F.dropout(a, 0.5, False, False)
        return F.softmax(b, dim=0) + x.reshape(-1)

    assert edges(target, torch.ones(2, 2)) == set()
    assert edges(target) == set()


@pytest.mark.parametrize("inputs", [(torch.ones(2, 2),), ()], ids=["run", "schemas"])
def test_a_write_is_ordered_with_all_users_of_its_storage(inputs: tuple[Any, ...]) -> None:
    def target(x):
        v = x.view(-1)
        a = v.sin()
        r = F.relu(v, inplace=True)
        b = x.cos()
        return a, b, r

    assert edges(target, *inputs) >= {("v", "r"), ("a", "r"), ("r", "b")}


def test_every_spelling_of_a_write_is_seen() -> None:
    def target(x, y):
        x[0] = y
        x += y
        x.mul_(2)
        torch.relu_(x)
        torch.add(x, y, out=x)
        F.dropout(x, 0.5, True, True)
        return ()

    gm = trace_pattern(target)
    for inputs in ([torch.ones(2), torch.tensor(1.0)], None):
        facts = graph_facts(gm, inputs)
        calls = [n for n in gm.graph.nodes if n.op.startswith("call")]
        assert [bool(facts.nodes[n].writes) for n in calls] == [True] * 6


def test_normalisation_in_training_writes_its_statistics() -> None:
    def target(x, mean, var):
        a = F.batch_norm(x, mean, var, None, None, True)
        b = F.batch_norm(x, mean, var, None, None, False)
        c = F.instance_norm(x, mean, var, None, None, True)
        return a, b, c

    inputs = [torch.ones(2, 3, 4), torch.zeros(3), torch.ones(3)]
    assert edges(target, *inputs) >= {("a", "b"), ("b", "c")}
    gm = trace_pattern(target)
    for given in (inputs, None):
        facts = graph_facts(gm, given)
        written = [len(facts.nodes[n].writes) for n in gm.graph.nodes if n.op == "call_function"]
        assert written == [2, 0, 2]


def test_random_state_is_a_chain_of_what_draws() -> None:
    def target(x):
        a = torch.rand_like(x)
        b = F.dropout(x, 0.5, True)
        c = F.dropout(x, 0.5, False)
        d = torch.randn(2)
        return a, b, c, d

    assert edges(target, torch.ones(2)) == {("a", "b"), ("b", "d")}
    assert edges(target) == {("a", "b"), ("b", "d")}


def test_two_inputs_on_one_storage() -> None:
    def target(x, y):
        a = x.sin()
        b = y.add_(1)
        return a, b

    base = torch.ones(4)
    assert edges(target, base, base[:2]) == {("a", "b")}
    assert edges(target, base, torch.ones(4)) == set()


def test_a_global_state_is_a_barrier() -> None:
    def target(x):
        a = x.sin()
        torch._C._set_grad_enabled(False)
        b = x.cos()
        return a, b

    assert edges(target, torch.ones(2)) == {("a", "_set_grad_enabled"), ("_set_grad_enabled", "b")}


def test_values_of_single_elements_are_known_and_others_are_not() -> None:
    def target(x, eps, mask):
        e = eps.item()
        picked = x[mask]
        size = torch.ops.aten.sym_size.int(picked, 0)
        return F.layer_norm(x, (4,), None, None, e), torch.ones(size)

    gm = trace_pattern(target)
    mask = torch.tensor([True, False])
    facts: Facts = graph_facts(gm, [torch.ones(2, 4), torch.tensor(1e-5), mask])
    assert facts.unknown == frozenset()


def test_what_cannot_run_falls_back_to_schemas() -> None:
    def target(x, y):
        a = x @ y
        b = a.add_(1)
        c = x.sin()
        return b, c

    gm = trace_pattern(target)
    facts = graph_facts(gm, [torch.ones(2, 3), torch.ones(2, 3)])
    assert facts.unknown == {"a", "b"}
    # What cannot be run may share memory with its arguments: the write stays before the last read of x.
    assert {(a.name, b.name) for a, b in facts.order_edges(gm.graph)} == {("a", "b"), ("b", "c")}


def test_shared_graphs_run_on_fake_tensors(shared_dir: Path) -> None:
    expected = {"gn_torchgeometric_GAE": 4, "gn_timm_resnet10t.c3_in1k": 15, "gn_hf_falcon-tiny-random": 2}
    for name, writers in expected.items():
        graph = read_graph(shared_dir / "graphs" / name)
        gm = capture(load_module(graph), graph)
        facts = graph_facts(gm, make_inputs(graph))
        assert facts.unknown == frozenset()
        assert sum(bool(f.writes) for f in facts.nodes.values()) == writers
