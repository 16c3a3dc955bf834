"""Samples, manifests, lists and hashes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from pass_bench.data import hash_of_printout, hash_of_source, read_manifest, read_sample, sample_folder
from pass_bench.data.lists import (
    GraphRow,
    read_graph_list,
    read_graph_rows,
    read_groups,
    read_sample_list,
    write_graph_list,
    write_graph_rows,
    write_groups,
    write_sample_list,
)
from pass_bench.errors import BadInput

UIDS = (
    "7b04d0dae0534ce7a9907c6bf3f74955",
    "2bb9d13c00eb43ee97d35ab0b89fcc11",
    "c4d02f1ef03e495c9bb8a5f0eda78302",
)
HASH = "00085a8dcc1235b8b6ef528a1e2273629d3f136b6aae97c10b38d28ed15a3293"


def sample_dir(root: Path, listed: str = "graphs/lib/g_0\ngraphs/lib/g_1\n") -> Path:
    for name in ("g_0", "g_1"):
        graph = root / "all_graphs" / "lib" / name
        graph.mkdir(parents=True)
        (graph / "model.py").write_text("")
    sample = root / "sample"
    (sample / "pass_dir").mkdir(parents=True)
    (sample / "graphs").symlink_to(root / "all_graphs")
    (sample / "graph_net_bench").symlink_to(root)
    (sample / "graph_list.txt").write_text(listed)
    return sample


def test_sample_through_links(tmp_path: Path) -> None:
    path = sample_dir(tmp_path)
    sample = read_sample(path)
    assert [graph.listed for graph in sample.graphs] == ["graphs/lib/g_0", "graphs/lib/g_1"]
    assert sample.graphs[0].path == path / "graphs/lib/g_0"
    assert sample.pass_dir == path / "pass_dir" and sample.uids is None
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_sample(link).graphs[1].path.samefile(tmp_path / "all_graphs/lib/g_1")


def test_sample_uids(tmp_path: Path) -> None:
    path = sample_dir(tmp_path)
    (path / "sample_uids.txt").write_text(",".join(UIDS))
    assert read_sample(path).uids == UIDS
    (path / "sample_uids.txt").write_text(" ,\n")
    with pytest.raises(BadInput, match="lists no uid"):
        read_sample(path)


@pytest.mark.parametrize(
    ("listed", "what", "line"),
    [
        ("", "lists no graph", None),
        ("\n\n# none\n", "lists no graph", None),
        ("graphs/lib/g_0\ngraphs/lib/gone\n", "no graph at 'graphs/lib/gone'", 2),
        ("graphs/lib\n", "no model.py in graphs/lib", 1),
    ],
)
def test_bad_graph_lists(tmp_path: Path, listed: str, what: str, line: int | None) -> None:
    with pytest.raises(BadInput, match=what) as error:
        read_sample(sample_dir(tmp_path, listed))
    assert error.value.line == line
    assert "graph_list.txt" in str(error.value)


def test_missing_sample_or_list(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such sample directory"):
        read_sample(tmp_path / "none")
    with pytest.raises(BadInput, match="no such file"):
        read_sample(tmp_path)


def test_manifest(tmp_path: Path) -> None:
    for name in ("B", "A"):
        (tmp_path / f"{name}.py").write_text("")
    manifest = tmp_path / "sorted_output_pass_rule_names.json"
    manifest.write_text('["B", "A"]')
    assert read_manifest(tmp_path) == ("B", "A")
    manifest.write_text("[]")
    assert read_manifest(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"A": 1}', "not a list"),
        ("[1]", "not a list"),
        ('["A"', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('["C"]', "there is no C.py"),
        ('["../A"]', "not a file stem"),
        ('["A", "A"]', "twice"),
    ],
)
def test_bad_manifests(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "A.py").write_text("")
    (tmp_path / "sorted_output_pass_rule_names.json").write_text(text)
    with pytest.raises(BadInput, match=what):
        read_manifest(tmp_path)


def test_sample_hash_of_the_published_example() -> None:
    assert sample_folder(UIDS) == f"00/08/{HASH}"


def test_graph_hashes() -> None:
    header = "import torch\n\nclass GraphModule(torch.nn.Module):\n"
    code = f"{header}\n\n\n    def forward(self, x):\n        return x\n    "
    assert hash_of_source(code) == hashlib.sha256(code.encode()).hexdigest()
    printed = "\n\n\ndef forward(self, x):\n    return x\n"
    assert hash_of_printout(code) == hashlib.sha256(printed.encode()).hexdigest()


def test_lists_round_trip(tmp_path: Path) -> None:
    pairs = [(UIDS[0], "a/b"), (UIDS[1], "c d/e")]
    write_graph_list(tmp_path / "g.txt", pairs)
    assert (tmp_path / "g.txt").read_text() == f"{UIDS[0]}\ta/b\n{UIDS[1]}\tc d/e\n"
    assert read_graph_list(tmp_path / "g.txt") == pairs
    write_groups(tmp_path / "u.txt", [UIDS, ("x",)])
    assert (tmp_path / "u.txt").read_text().splitlines()[0] == ",".join(sorted(UIDS))
    assert read_groups(tmp_path / "u.txt") == [tuple(sorted(UIDS)), ("x",)]
    for name, text in (("s.txt", b"p/1\np/2\n"), ("s.csv", b"sample_path\r\np/1\r\np/2\r\n")):
        write_sample_list(tmp_path / name, ["p/1", "p/2"])
        assert (tmp_path / name).read_bytes() == text
        assert read_sample_list(tmp_path / name) == ["p/1", "p/2"]


def test_graph_rows_and_their_twin(tmp_path: Path) -> None:
    rows = [
        GraphRow("1", "graphs/a", "float32", "[0, 1)", "torch", "m,1"),
        GraphRow("1", "graphs/b", "float16", "x", "torch", "m"),
        GraphRow("2", "graphs/c", "float16", "x", "torch", "m"),
    ]
    write_graph_rows(tmp_path / "x_graph_lists_v2.csv", rows)
    text = (tmp_path / "x_graph_lists_v2.csv").read_bytes()
    assert text.startswith(b"sample_id,graph_path,dtype,bucket,framework,model\r\n1,graphs/a,")
    assert read_graph_rows(tmp_path / "x_graph_lists_v2.csv") == rows
    assert (tmp_path / "x_graph_lists_v2.txt").read_text() == "graphs/a\ngraphs/b\n\ngraphs/c\n"


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("a.txt", "uid only\n", read_graph_list),
        ("b.txt", "a,,b\n", read_groups),
        ("c.csv", "path\r\nx\r\n", read_sample_list),
        ("d.csv", "sample_id,path\r\n", read_graph_rows),
        ("e.csv", "sample_id,graph_path,dtype,bucket,framework,model\r\n1,2\r\n", read_graph_rows),
    ],
)
def test_bad_lists_name_the_line(tmp_path: Path, name: str, text: str, read: object) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput) as error:
        read(tmp_path / name)  # type: ignore[operator]
    assert error.value.line is not None


def test_reading_needs_no_torch() -> None:
    script = "import sys; sys.modules['torch'] = None; import pass_bench.data, pass_bench.data.lists"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
