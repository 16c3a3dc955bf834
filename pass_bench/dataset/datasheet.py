"""The datasheet beside the shards: what is in them, how it was made, and what was left out and why."""

from __future__ import annotations

from pathlib import Path

from pass_bench.dataset.page import table
from pass_bench.dataset.pipeline import dropped, load_records
from pass_bench.dataset.publish import COLUMNS
from pass_bench.dataset.summary import summarize
from pass_bench.dataset.tally import tally

_COLUMN_TEXTS = {
    "uid": "derived from the graph's canonical text and its arguments' shapes and dtypes",
    "skeleton": "hash of operators and wiring without constants, shapes, dtypes: what a sample shares",
    "category": "sole_op_subgraphs, fusible_subgraphs or typical_subgraphs",
    "dtype": "the float type it was made in",
    "split": "eval or train; no operator sequence is in both",
    "library": "where the model comes from",
    "model": "the configuration that the graph is a part of",
    "class_name": "its class, or the family of it",
    "dim": "0 to 8 for further sizes, 9 for the captured ones",
    "kernels": "kernels Inductor schedules for the statements; -1 where the model was not lowered",
    "path": "place below graphs/passnet_subgraphs",
    "sample": "place below samples/passnet_subgraphs",
    "operators": "one per statement, separated by blanks",
    "model_py": "model.py; likewise the other columns that are named after a file",
}


def write_datasheet(work: Path, shards: Path) -> None:
    """Write README.md beside the shards."""
    found = tally(load_records(work))
    summary = summarize(shards)
    columns = ("library", "configurations tried", "captured", "distinct", "classes tried", "model classes")
    text = f"""# passnet_subgraphs

Subgraphs of neural networks, as small PyTorch modules with the statistics of their arguments. Made
by `passbench dataset` from architectures built as code with random weights; no weights are stored.
This is not the published PassNet dataset, though it has the same file formats.

{summary.graphs} graphs in {summary.samples} samples. `passbench dataset unpack --list
sample_lists/...` writes sample directories.

## Where the graphs come from

{table(columns, found.rows)}

*Distinct*: graphs of whole models that differ in code, shapes or types; some names build the same
network. {summary.models} configurations of {summary.classes} classes have a part in this set: a
part that other configurations have, too, is in it only once. transformers models are two layers
deep, in several widths, with at most 1024 words; every other model is built as its library builds
it, images mostly at 112 pixels. Weights are random and batches small, so values are not those of a
trained model. Configurations that failed:

{table(("cause", "configurations"), found.causes.most_common())}

`benchmarks/dataset.md` counts the errors behind them.

## What was left out

Every graph ran twice in eager on the CPU, those of evaluation samples also on random inputs. Dropped:

{table(("reason", "graphs"), dropped(work).most_common())}

`weak`: zeros, the mean, or an input passed through would be right at t = -3.

## Columns

{table(("column", "meaning"), [(f"`{name}`", _COLUMN_TEXTS.get(name, "")) for name in COLUMNS])}

## Statistics of arguments

Measured while the model ran once on random inputs, batch 1: mean, standard deviation, `min_val` for
what never was negative, ranges and (below 64 elements) values of integers. Tensors that were
constant have a spread all the same, since a replay of them would be constant; integers that were all
alike (token types, lengths) stay so, since another value might be out of range. In other sizes and
types the statistics are those of the captured run.
"""
    (shards / "README.md").write_text(text, encoding="utf-8")
