"""Numbers about a published set, read from its shards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pass_bench.data.metas import parse_metas
from pass_bench.dataset.publish import read_rows
from pass_bench.errors import BadInput


@dataclass(frozen=True)
class Summary:
    """Counts over all graphs of the shards; sizes are elements of all arguments together."""

    graphs: int
    samples: int
    models: int
    classes: int
    skeletons: int
    kernels: Counter[int]
    operators: Counter[str]
    by_category: Counter[tuple[str, str]]
    samples_by_use: Counter[tuple[str, str]]
    dtypes: Counter[str]
    dims: Counter[int]
    libraries: Counter[str]
    statements: tuple[int, ...]
    elements: tuple[int, ...]
    graphs_per_sample: tuple[int, ...]
    bytes: int


def summarize(shards: Path) -> Summary:
    """Read the shards and count; BadInput if there are none."""
    files = sorted(shards.glob("*.parquet"))
    if not files:
        raise BadInput("no shards", path=shards, expected="*.parquet files")
    operators: Counter[str] = Counter()
    by_category: Counter[tuple[str, str]] = Counter()
    dtypes: Counter[str] = Counter()
    dims: Counter[int] = Counter()
    models: dict[str, str] = {}
    samples: dict[str, list[str]] = {}
    statements: list[int] = []
    elements: list[int] = []
    uids: set[str] = set()
    skeletons: set[str] = set()
    classes: set[str] = set()
    kernels: Counter[int] = Counter()
    for row in read_rows(shards):
        sequence = row["operators"].split()
        operators.update(list(dict.fromkeys(sequence)))  # the order decides between equals
        by_category[(row["category"], row["split"])] += 1
        dtypes[row["dtype"]] += 1
        dims[row["dim"]] += 1
        models[f"{row['library']}/{row['model']}"] = row["library"]
        samples.setdefault(row["sample"], []).append(row["split"])
        statements.append(len(sequence))
        metas = parse_metas(row["weight_meta_py"], Path(row["path"]))
        elements.append(sum(meta.numel for meta in metas))
        uids.add(row["uid"])
        skeletons.add(row["skeleton"])
        classes.add(f"{row['library']}/{row['class_name']}")
        if row["kernels"] >= 0:
            kernels[row["kernels"]] += 1
    return Summary(
        graphs=len(uids),
        samples=len(samples),
        models=len(models),
        classes=len(classes),
        skeletons=len(skeletons),
        kernels=kernels,
        operators=operators,
        by_category=by_category,
        samples_by_use=Counter((name.split("/")[0], uses[0]) for name, uses in samples.items()),
        dtypes=dtypes,
        dims=dims,
        libraries=Counter(models.values()),
        statements=tuple(statements),
        elements=tuple(elements),
        graphs_per_sample=tuple(len(uses) for uses in samples.values()),
        bytes=sum(path.stat().st_size for path in files),
    )
