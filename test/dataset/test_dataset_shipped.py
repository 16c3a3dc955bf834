"""The shipped set: its size, its split, its lists, and that its samples are what they say."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import sympy

from pass_bench.data import check_model_source, read_sample, sample_hash
from pass_bench.data.lists import read_graph_list, read_groups, read_sample_list
from pass_bench.data.metas import parse_metas
from pass_bench.dataset.publish import read_rows
from pass_bench.dataset.unpack import unpack

ROOT = Path(__file__).parents[2]
SHARDS = ROOT / "datasets" / "passnet_subgraphs"


@cache
def rows() -> list[dict[str, Any]]:
    return list(read_rows(SHARDS, ("uid", "skeleton", "category", "dtype", "sample", "split", "operators")))


def test_there_are_as_many_graphs_as_the_documents_say() -> None:
    assert len({row["uid"] for row in rows()}) >= 18_000
    assert len({row["skeleton"] for row in rows()}) >= 4_000
    assert len({op for row in rows() for op in row["operators"].split()}) >= 150
    samples = Counter(
        row["category"] for row in {r["sample"]: r for r in rows() if r["split"] == "eval"}.values()
    )
    assert samples == {"fusible_subgraphs": 200, "typical_subgraphs": 200}


def test_it_fits_in_a_checkout() -> None:
    shards = [path.stat().st_size for path in SHARDS.glob("*.parquet")]
    assert sum(shards) < 25_000_000
    lists = [path for folder in ("graph_lists", "sample_lists") for path in (ROOT / folder).rglob("*.*")]
    assert all(path.name.startswith("passnet_") for path in lists)


def test_sizes_follow_the_symbols_of_the_constraints() -> None:
    columns = ("path", "weight_meta_py", "constraints_py")
    found = [row for row in read_rows(SHARDS, columns) if row["constraints_py"]]
    for row in random.Random(1).sample(found, 300):
        scope: dict[str, Any] = {}
        exec(row["constraints_py"], scope)
        example = scope["dynamic_dim_constraint_symbol2example_value"]
        shapes = {
            name: tuple(int(sympy.sympify(size).subs(example)) for size in dims)
            for dims, name in scope["dynamic_dim_constraint_input_shapes"]
        }
        metas = parse_metas(row["weight_meta_py"], Path(row["path"]))
        assert shapes == {meta.original_name: meta.shape for meta in metas}, row["path"]


def test_nothing_of_the_evaluation_samples_is_in_train() -> None:
    parts = {use: [row for row in rows() if row["split"] == use] for use in ("eval", "train")}
    for column in ("skeleton", "uid", "sample", "operators"):
        assert not {row[column] for row in parts["eval"]} & {row[column] for row in parts["train"]}


def test_lists_and_shards_agree() -> None:
    listed = Counter(
        name for path in (ROOT / "sample_lists").rglob("passnet_*.txt") for name in read_sample_list(path)
    )
    assert set(listed.values()) == {1}
    assert set(listed) == {f"samples/passnet_subgraphs/{row['sample']}" for row in rows()}
    for short in ("fusible", "typical"):
        grouped = read_groups(ROOT / "graph_lists" / f"passnet_grouped_{short}_eval_uids.txt")
        assert len(grouped) == 200
        pairs = dict(read_graph_list(ROOT / "graph_lists" / f"passnet_{short}_eval.txt"))
        assert {uid for group in grouped for uid in group} == set(pairs)


def test_every_sample_is_named_by_the_hash_of_its_uids() -> None:
    uids: dict[str, list[str]] = {}
    for row in rows():
        uids.setdefault(row["sample"], []).append(row["uid"])
    for sample, members in uids.items():
        assert sample.rsplit("/", 1)[1] == sample_hash(members)


@pytest.mark.parametrize("short", ["fusible", "typical"])
def test_some_evaluation_samples_unpack_and_still_pass_verification(short: str, tmp_path: Path) -> None:
    from pass_bench.data import read_graph
    from pass_bench.fx.load import load_module
    from pass_bench.inputs import make_inputs

    names = read_sample_list(ROOT / "sample_lists" / "eval" / f"passnet_{short}_eval_samples.txt")
    chosen = random.Random(0).sample(names, 3)
    assert unpack(SHARDS, tmp_path, chosen) == 3
    for name in chosen:
        graph = read_graph(read_sample(tmp_path / name).graphs[0].path)
        check_model_source(graph.code, graph.path / "model.py")
        assert load_module(graph)(*make_inputs(graph))
