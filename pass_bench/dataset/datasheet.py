"""The datasheet beside the shards: what is in them, how it was made, and what was left out and why."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from pass_bench.dataset.page import table
from pass_bench.dataset.pipeline import load_records
from pass_bench.dataset.publish import COLUMNS
from pass_bench.dataset.store import ModelRecord
from pass_bench.dataset.summary import summarize
from pass_bench.dataset.verify import read_verified

_COLUMN_TEXTS = {
    "uid": "derived from the graph's canonical text and its arguments' shapes and dtypes",
    "skeleton": "hash of operators and wiring without constants, shapes, dtypes: what a sample shares",
    "dim": "0 to 8 for further sizes, 9 for the captured ones",
    "kernels": "kernels Inductor schedules for the statements; -1 where the model was not lowered",
    "path": "place below graphs/passnet_subgraphs",
    "sample": "place below samples/passnet_subgraphs",
    "operators": "one per statement, separated by blanks",
    "model_py": "model.py; likewise the other columns that are named after a file",
}


def write_datasheet(work: Path, shards: Path) -> None:
    """Write README.md beside the shards."""
    records = load_records(work)
    good = [record for record in records if record.failure is None]
    reasons = Counter(kind_of_failure(record) for record in records if record.failure is not None)
    dropped = Counter(reason for reason in read_verified(work / "verified.jsonl").values() if reason)
    summary = summarize(shards)
    by_library = Counter(record.library for record in good)
    tried = Counter(record.library for record in records)
    classes = {
        record.library: len({r.class_name for r in good if r.library == record.library}) for record in good
    }
    libraries = [(n, tried[n], by_library[n], classes.get(n, 0)) for n in sorted(tried)]
    text = f"""# passnet_subgraphs

Subgraphs of neural networks, as small PyTorch modules with the statistics of their arguments. Made
by `passbench dataset` from architectures built as code with random weights; no weights are stored.
This is not the published PassNet dataset, though it has the same file formats.

{summary.graphs} graphs in {summary.samples} samples. `passbench dataset unpack --list
sample_lists/...` writes sample directories.

## Where the graphs come from

{table(("library", "configurations tried", "captured", "model classes"), libraries)}

Together {len(good)} configurations of {sum(classes.values())} classes. transformers models are two
layers deep, in several widths, with at most 1024 words; every other model is built as its library
builds it. Configurations that failed:

{table(("reason", "configurations"), reasons.most_common(20))}

## What was left out

Every graph ran twice in eager on the CPU. Dropped:

{table(("reason", "graphs"), dropped.most_common())}

`weak`: zeros, the mean, or an input passed through would be right at t = -3.

## Columns

{table(("column", "meaning"), [(f"`{name}`", _COLUMN_TEXTS.get(name, "")) for name in COLUMNS])}

## Statistics of arguments

Measured while the model ran once on random inputs, batch 1: mean, standard deviation, `min_val` for
what never was negative, ranges and (below 64 elements) values of integers. Tensors that were
constant have a spread all the same, since a replay of them would be constant. In other sizes and
types the statistics are those of the captured run.
"""
    (shards / "README.md").write_text(text, encoding="utf-8")


def kind_of_failure(record: ModelRecord) -> str:
    """The reason without names and numbers, so that like failures count together."""
    text = (record.failure or "").replace(record.name, "").split("[")[0]
    return re.sub(r"\d+", "N", text)[:90].strip(" :'\"")
