"""Shards: all graphs as rows of parquet files, the same bytes for the same graphs."""

# ruff: noqa: SIM905
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pass_bench.data import hash_of_printout, hash_of_source
from pass_bench.data.lists import (
    GraphRow,
    write_graph_list,
    write_graph_rows,
    write_groups,
    write_sample_list,
)
from pass_bench.data.metas import format_metas
from pass_bench.dataset.group import Group, Split
from pass_bench.dataset.plan import HALVES, PlannedGraph

PREFIX = "passnet"
FOLDER = "passnet_subgraphs"
_ROWS = 6000
COLUMNS = (
    "uid skeleton category dtype dim kernels path sample split library model class_name operators "
    "model_py weight_meta_py constraints_py graph_net_json graph_hash subgraph_sources_json"
).split()


def row_of(graph: PlannedGraph, sample: str, use: str) -> dict[str, Any]:
    """A graph as a row: the text of each of its files, and where it belongs."""
    info = {
        "framework": "torch",
        "num_devices_required": 1,
        "num_nodes_required": 1,
        "dynamic": False,
        "model_name": graph.name,
        "source": graph.library,
        "heuristic_tag": graph.tag,
    }
    half = any(meta.dtype in HALVES for meta in graph.metas)
    source = f"samples/{graph.library}/{graph.model}"
    return {
        "uid": graph.uid,
        "skeleton": graph.skeleton,
        "kernels": graph.kernels,
        "class_name": graph.class_name,
        "category": graph.category,
        "dtype": graph.dtype,
        "dim": graph.dim,
        "path": graph.path,
        "sample": sample,
        "split": use,
        "library": graph.library,
        "model": graph.model,
        "operators": " ".join(graph.operators),
        "model_py": graph.code,
        "weight_meta_py": format_metas(graph.metas),
        "constraints_py": graph.constraints,
        "graph_net_json": json.dumps(info, indent=4, ensure_ascii=False),
        "graph_hash": hash_of_printout(graph.code) if half else hash_of_source(graph.code),
        "subgraph_sources_json": json.dumps({source: [[graph.start, graph.end]]}, indent=4),
    }


def rows_of(chosen: Split) -> Iterator[dict[str, Any]]:
    """The rows of all samples; within a category those of one skeleton and similar ones stand together."""
    for use, groups in (("eval", chosen.evaluation), ("train", chosen.train)):
        for category in sorted(groups):
            for one in sorted(groups[category], key=lambda g: (g.operators, g.skeleton)):
                for graph in sorted(
                    one.graphs, key=lambda g: (g.library, g.model, g.start, g.dim, g.dtype, g.uid)
                ):
                    yield row_of(graph, one.path, use)


def write_shards(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write rows as parquet files of up to 6,000 rows, compressed with zstandard. Deterministic."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.parquet"):
        old.unlink()
    types = {"dim": pa.int8(), "kernels": pa.int16()}
    count = max(1, -(-len(rows) // _ROWS))
    paths = []
    for shard in range(count):
        part = rows[shard * _ROWS : (shard + 1) * _ROWS]
        arrays = {name: [row[name] for row in part] for name in COLUMNS}
        table = pa.table({name: pa.array(a, types.get(name, pa.string())) for name, a in arrays.items()})
        path = folder / f"{PREFIX}-{shard:05d}-of-{count:05d}.parquet"
        pq.write_table(
            table,
            path,
            compression="zstd",
            compression_level=19,
            use_dictionary=[
                "category",
                "dtype",
                "split",
                "library",
                "model",
                "class_name",
                "skeleton",
                "sample",
                "operators",
            ],
            row_group_size=_ROWS,
            data_page_size=1 << 26,
            write_statistics=False,
            max_rows_per_page=_ROWS,
        )
        paths.append(path)
    return paths


def read_rows(folder: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of all shards in a folder."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        yield from pq.read_table(path, columns=list(columns) if columns else None).to_pylist()


def write_lists(chosen: Split, root: Path) -> list[Path]:
    """Write graph_lists/ and sample_lists/ below `root`, under names of our own."""
    written: list[Path] = []
    for use, groups in (("eval", chosen.evaluation), ("train", chosen.train)):
        for category, members in sorted(groups.items()):
            short = category.removesuffix("_subgraphs")
            stem = f"{PREFIX}_{short}_{use}_samples"
            paths = [f"samples/{FOLDER}/{one.path}" for one in members]
            for suffix in (".txt", ".csv"):
                target = root / "sample_lists" / use / f"{stem}{suffix}"
                write_sample_list(target, paths)
                written.append(target)
            if use == "eval":
                rows = [_row(one, graph) for one in members for graph in one.graphs]
                write_graph_rows(root / "graph_lists" / f"{PREFIX}_{short}_{use}_graph_lists_v2.csv", rows)
                groups_path = root / "graph_lists" / f"{PREFIX}_grouped_{short}_{use}_uids.txt"
                write_groups(groups_path, [[graph.uid for graph in one.graphs] for one in members])
                pairs = sorted(
                    (graph.uid, f"graphs/{FOLDER}/{graph.path}") for one in members for graph in one.graphs
                )
                write_graph_list(root / "graph_lists" / f"{PREFIX}_{short}_{use}.txt", pairs)
                written.append(groups_path)
    return written


def _row(one: Group, graph: PlannedGraph) -> GraphRow:
    sample = one.path.rsplit("/", 1)[1]
    return GraphRow(
        sample,
        f"graphs/{FOLDER}/{graph.path}",
        graph.dtype,
        str(graph.dim),
        "torch",
        f"{graph.library}/{graph.model}",
    )
