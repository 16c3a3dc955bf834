"""Real graphs go through all stages, and their parts compute what the whole computes."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch

from pass_bench.data import read_graph
from pass_bench.dataset.capture import Captured
from pass_bench.dataset.cut import Cut, cut, is_legal
from pass_bench.dataset.extract import Origin, write_cut
from pass_bench.dataset.graphs import capture_graph, values_of
from pass_bench.dataset.group import group, split
from pass_bench.dataset.plan import Budget, plan
from pass_bench.dataset.store import ModelRecord, Traced
from pass_bench.errors import BadInput
from pass_bench.fx.load import load_module

DOES_NOT_RUN = "gn_test_mobilenetv4_swapped_meta"
NOT_FINITE = "gn_test_error_model"
SMALL = 16_000


@lru_cache(maxsize=1)  # a capture holds every value of its graph: gigabytes over all graphs
def captured(folder: Path) -> Captured:
    return capture_graph(read_graph(folder), check=folder.name != NOT_FINITE)


def folders(shared_dir: Path, most_bytes: int = 1 << 30) -> list[Path]:
    """The graphs that run; `most_bytes` bounds model.py, since long graphs take many seconds."""
    found = [path for path in sorted((shared_dir / "graphs").iterdir()) if path.is_dir()]
    assert len(found) == 26
    runs = [path for path in found if path.name != DOES_NOT_RUN]
    return [path for path in runs if (path / "model.py").stat().st_size <= most_bytes]


def test_a_graph_that_does_not_run_is_refused_with_its_own_error(shared_dir: Path) -> None:
    with pytest.raises(RuntimeError, match="at least three dimensions"):
        capture_graph(read_graph(shared_dir / "graphs" / DOES_NOT_RUN))


def test_small_shared_graphs_are_decomposed_varied_and_grouped(shared_dir: Path) -> None:
    through_all_stages(folders(shared_dir, SMALL))


@pytest.mark.full
def test_all_shared_graphs_are_decomposed_varied_and_grouped(shared_dir: Path) -> None:
    through_all_stages(folders(shared_dir))


def through_all_stages(paths: list[Path]) -> None:
    records = [
        ModelRecord("shared", path.name, path.name, graphs=(Traced(captured(path).listing),))
        for path in paths
    ]
    graphs = list(plan(records, {}, Budget()))
    assert {graph.model for graph in graphs} >= {
        record.name for record in records if "Node2Vec" not in record.name
    }
    assert len({(graph.category, graph.uid) for graph in graphs}) == len(graphs) > 5 * len(paths)
    groups = group(graphs)
    assert sum(len(one.graphs) for one in groups) <= len(graphs)
    parts = split(groups, 5)
    assert all(len(chosen) <= 5 for chosen in parts.evaluation.values())


def spans_of(folder: Path, count: int, seed: int) -> list[tuple[int, int]]:
    listing, generator = captured(folder).listing, random.Random(f"{folder.name}{seed}")
    found: list[tuple[int, int]] = []
    for _ in range(50 * count):
        start = generator.randrange(len(listing.statements))
        end = min(start + generator.randint(1, 16), len(listing.statements))
        if is_legal(listing, start, end) and (start, end) not in found:
            found.append((start, end))
        if len(found) == count:
            break
    return found


def round_trip(folder: Path, span: tuple[int, int], out: Path) -> None:
    source = captured(folder)
    values = source_values(folder)
    part = cut(source.listing, *span)
    write_cut(part, out, origin=Origin("shared", folder.name))
    graph = read_graph(out)
    by_name = {name: index for index, name in part.argument_names().items()}
    inputs: list[Any] = []
    for argument in graph.arguments:
        name = source.listing.values[by_name[argument.name]].name
        inputs.append(before(source, name, span[0], values).clone())
    with torch.no_grad():
        torch.manual_seed(0)
        outputs = load_module(graph)(*inputs)
    for index, output in zip(part.outputs, outputs, strict=True):
        name = source.listing.values[index].name
        if isinstance(output, torch.Tensor) and not changed_later(part, index) and not is_random(part):
            torch.testing.assert_close(output, values[name], rtol=1e-5, atol=1e-5, equal_nan=True)


@lru_cache(maxsize=1)
def source_values(folder: Path) -> dict[str, torch.Tensor]:
    return values_of(captured(folder))


def before(source: Captured, name: str, start: int, values: dict[str, torch.Tensor]) -> torch.Tensor:
    """The value as it is when statement `start` begins: after the last effect on it."""
    listing = source.listing
    if any(s.effect for s in listing.statements[:start]):

        class Stop(Exception):
            pass

        stop = listing.values[listing.statements[start].result].name
        live: dict[str, torch.Tensor] = {}

        class Until(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                if n.name == stop:
                    raise Stop
                result = super().run_node(n)
                live[str(n.target) if n.op == "placeholder" else n.name] = result
                return result

        inputs = [v.clone() if isinstance(v, torch.Tensor) else v for v in source.inputs]
        runner = Until(source.module, garbage_collect_values=False)
        with torch.no_grad():
            torch.manual_seed(0)
            try:
                runner.run(*inputs)
            except Stop:
                return live[name]
    return values[name]


def changed_later(part: Cut, index: int) -> bool:
    """Whether a later statement of the part changes memory: what was kept of the value is older then."""
    position = next(i for i, s in enumerate(part.statements) if s.result == index)
    return any(
        s.effect or "inplace=True" in s.text or "_(" in s.text for s in part.statements[position + 1 :]
    )


def is_random(part: Cut) -> bool:
    return any(word in s.text for s in part.statements for word in ("torch.rand", "torch.empty", "new_empty"))


def test_parts_of_small_graphs_compute_what_the_whole_computes(shared_dir: Path, tmp_path: Path) -> None:
    for folder in folders(shared_dir, SMALL):
        for number, span in enumerate(spans_of(folder, 2, 0)):
            round_trip(folder, span, tmp_path / f"{folder.name}_{number}")


@pytest.mark.full
def test_two_hundred_parts_compute_what_the_whole_computes(shared_dir: Path, tmp_path: Path) -> None:
    done = 0
    for folder in folders(shared_dir):
        for number, span in enumerate(spans_of(folder, 9, 1)):
            round_trip(folder, span, tmp_path / f"{folder.name}_{number}")
            done += 1
    assert done >= 200


def test_a_module_that_computes_nothing_is_bad_input() -> None:
    from pass_bench.dataset.record import record

    with pytest.raises(BadInput, match="no output"):
        record(torch.nn.Identity(), {"input": torch.ones(2)}, name="identity")
