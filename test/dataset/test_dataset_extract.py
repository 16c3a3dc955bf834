"""Extraction: a module becomes graph directories whose replay computes what the module computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pass_bench.data import hash_of_printout, hash_of_source, read_graph
from pass_bench.dataset.cut import cut
from pass_bench.dataset.extract import Origin, extract_module, write_cut
from pass_bench.dataset.weights import fill_weights

ORIGIN = Origin("toys", "block", "nlp")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.linear = torch.nn.Linear(16, 16)
        self.register_buffer("positions", torch.arange(200))
        self.embed = torch.nn.Embedding(200, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(x + self.embed(self.positions[: x.shape[1]]))
        return torch.relu(self.linear(hidden)) * hidden


def block() -> Block:
    module = Block().eval()
    fill_weights(module)
    return module


def run(path: Path, inputs: list[Any]) -> Any:
    namespace: dict[str, Any] = {}
    exec((path / "model.py").read_text(), namespace)
    return namespace["GraphModule"]()(*inputs)


def test_the_written_graph_computes_what_the_module_computes(tmp_path: Path) -> None:
    module, x = block(), torch.randn(2, 8, 16)
    captured = extract_module(module, [x], tmp_path / "g", origin=ORIGIN)
    assert len(captured) == 1
    by_name = dict(
        zip(
            [str(n.target) for n in captured[0].module.graph.nodes if n.op == "placeholder"],
            captured[0].inputs,
            strict=True,
        )
    )
    graph = read_graph(tmp_path / "g")
    inputs = [by_name[graph.metas[a.name].original_name or ""] for a in graph.arguments]
    (result,) = run(tmp_path / "g", inputs)
    torch.testing.assert_close(result, module(x))
    assert (tmp_path / "g" / "graph_hash.txt").read_text() == hash_of_source(graph.code)


def test_metas_are_measured_and_never_constant(tmp_path: Path) -> None:
    extract_module(block(), [torch.rand(2, 8, 16) + 3.0], tmp_path / "g", origin=ORIGIN)
    metas = {m.original_name: m for m in read_graph(tmp_path / "g").metas.values()}
    x = metas["L_x_"]
    assert x.mean == pytest.approx(3.5, abs=0.1)
    assert x.std == pytest.approx(0.289, abs=0.05)
    assert x.min_val is not None and 2.9 < x.min_val < 3.1
    positions = metas["L_self_buffers_positions_"]
    assert (positions.min_val, positions.max_val, positions.data) == (0, 199, None)
    assert all(m.std is None or m.std > 0 for m in metas.values())


def test_a_half_variant_has_half_arguments_and_its_own_hash(tmp_path: Path) -> None:
    extract_module(block(), [torch.randn(2, 8, 16)], tmp_path / "g", origin=ORIGIN, dtype="bfloat16")
    graph = read_graph(tmp_path / "g")
    assert {m.dtype for m in graph.metas.values()} == {"bfloat16", "int64"}
    assert (tmp_path / "g" / "graph_hash.txt").read_text() == hash_of_printout(graph.code)


def test_a_meta_module_is_traced_without_numbers(tmp_path: Path) -> None:
    with torch.device("meta"):
        module, x = Block().eval(), torch.randn(2, 8, 16)
    extract_module(module, [x], tmp_path / "g", origin=ORIGIN)
    metas = {m.original_name: m for m in read_graph(tmp_path / "g").metas.values()}
    assert metas["L_self_modules_norm_parameters_weight_"].mean == 1.0
    assert all(m.std is None or m.std > 0 for m in metas.values())


def test_a_part_says_where_it_comes_from(tmp_path: Path) -> None:
    (captured,) = extract_module(block(), [torch.randn(2, 8, 16)], tmp_path / "g", origin=ORIGIN)
    write_cut(cut(captured.listing, 2, 4), tmp_path / "part", origin=ORIGIN)
    graph = read_graph(tmp_path / "part")
    assert graph.sources == {"samples/toys/block": ((2, 4),)}
    assert graph.info is not None and graph.info.model_name == "block_start2_end4_0"
    with torch.no_grad():
        first = run(tmp_path / "part", [torch.randn(g.shape) for g in graph.metas.values()])
    assert first[0].shape == (2, 8, 16)
