"""The lists of graphs and samples, in every published spelling."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import groupby
from pathlib import Path

from pass_bench.data.source import read_text
from pass_bench.errors import BadInput

_GRAPH_COLUMNS = ["sample_id", "graph_path", "dtype", "bucket", "framework", "model"]


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One line of a `*_graph_lists_v2.csv`."""

    sample_id: str
    graph_path: str
    dtype: str
    bucket: str
    framework: str
    model: str


def _lines(path: Path) -> list[tuple[int, str]]:
    numbered = enumerate(read_text(path).splitlines(), start=1)
    return [(number, line.rstrip()) for number, line in numbered if line.strip()]


def read_graph_list(path: Path | str) -> list[tuple[str, str]]:
    """`graph_lists/<name>.txt`: pairs of uid and relative path, tab-separated."""
    path = Path(path)
    pairs = []
    for number, line in _lines(path):
        uid, tab, graph = line.partition("\t")
        if not (uid and tab and graph.strip()):
            raise BadInput("not a uid and a path", path=path, line=number, expected="uid<TAB>path")
        pairs.append((uid, graph.strip()))
    return pairs


def write_graph_list(path: Path | str, pairs: Iterable[tuple[str, str]]) -> None:
    """Write pairs of uid and relative path, one a line."""
    _write(path, "".join(f"{uid}\t{graph}\n" for uid, graph in pairs))


def read_groups(path: Path | str) -> list[tuple[str, ...]]:
    """`hf_grouped_*_uids*.txt`: one group of uids a line, joined by commas."""
    path = Path(path)
    groups = []
    for number, line in _lines(path):
        uids = tuple(uid.strip() for uid in line.split(","))
        if not all(uids):
            raise BadInput("empty uid", path=path, line=number, expected="uids, joined by commas")
        groups.append(uids)
    return groups


def write_groups(path: Path | str, groups: Iterable[Iterable[str]]) -> None:
    """Write groups of uids, one a line, each ascending."""
    _write(path, "".join(",".join(sorted(group)) + "\n" for group in groups))


def read_sample_list(path: Path | str) -> list[str]:
    """`sample_lists/*/<name>.txt` (one path a line) or `.csv` (column sample_path): the paths, in order."""
    path = Path(path)
    if path.suffix != ".csv":
        return [line.strip() for _, line in _lines(path) if not line.lstrip().startswith("#")]
    rows = csv.DictReader(io.StringIO(read_text(path)))
    if "sample_path" not in (rows.fieldnames or []):
        raise BadInput("no column sample_path", path=path, line=1, expected="header sample_path")
    return [row["sample_path"].strip() for row in rows if (row["sample_path"] or "").strip()]


def write_sample_list(path: Path | str, samples: Iterable[str]) -> None:
    """Write sample paths: plain lines, or for a `.csv` a header and CRLF line ends."""
    if Path(path).suffix == ".csv":
        _write_csv(path, ["sample_path"], [[sample] for sample in samples])
    else:
        _write(path, "".join(f"{sample}\n" for sample in samples))


def read_graph_rows(path: Path | str) -> list[GraphRow]:
    """`*_graph_lists_v2.csv`: one row per graph."""
    path = Path(path)
    rows = csv.reader(io.StringIO(read_text(path)))
    header = next(rows, [])
    if header != _GRAPH_COLUMNS:
        raise BadInput("unknown header", path=path, line=1, expected=",".join(_GRAPH_COLUMNS))
    found = []
    for row in rows:
        if len(row) != len(_GRAPH_COLUMNS):
            raise BadInput(f"{len(row)} columns", path=path, line=rows.line_num, expected="6 columns")
        found.append(GraphRow(*row))
    return found


def write_graph_rows(path: Path | str, rows: Sequence[GraphRow]) -> None:
    """Write `<name>.csv` and its twin `<name>.txt`, where a blank line separates samples.

    Rows of one sample must stand together.
    """
    path = Path(path)
    _write_csv(path, _GRAPH_COLUMNS, [list(astuple(row)) for row in rows])
    blocks = groupby(rows, key=lambda row: row.sample_id)
    text = "\n".join("".join(f"{row.graph_path}\n" for row in block) for _, block in blocks)
    _write(path.with_suffix(".txt"), text)


def _write_csv(path: Path | str, header: list[str], rows: list[list[str]]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
    _write(path, buffer.getvalue())


def _write(path: Path | str, text: str) -> None:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
