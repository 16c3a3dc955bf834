"""Shards, unpacked samples, imports and materialised copies."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from pass_bench.cli import passbench, run
from pass_bench.data import hash_of_source, read_graph, read_sample, sample_hash
from pass_bench.data.lists import read_graph_rows, read_sample_list
from pass_bench.dataset import pipeline
from pass_bench.dataset.plan import Budget
from pass_bench.dataset.record import record
from pass_bench.dataset.stages import stage_times, timed
from pass_bench.dataset.store import ModelRecord, Traced, delta_of, read_record, write_record
from pass_bench.dataset.unpack import import_published, materialize, unpack
from pass_bench.dataset.weights import fill_weights
from pass_bench.errors import BadInput, HarnessFailure


class Block(torch.nn.Module):
    def __init__(self, width: int, gate: bool):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width)
        self.down, self.gate = torch.nn.Linear(width, width), gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.up(self.norm(x)).chunk(2, dim=-1)
        mixed = torch.nn.functional.silu(left) * right if self.gate else torch.tanh(left) + right
        scores = (mixed @ mixed.transpose(-1, -2) / 4.0).softmax(dim=-1)
        return self.down(scores @ mixed).view(x.shape[0], -1) ** 2 + 1


def write_toy_records(root: Path) -> None:
    """Three configurations of two architectures, captured as the zoo is."""
    for name, width, gate in (("A_8", 8, True), ("A_16", 16, True), ("B_8", 8, False)):
        module = Block(width, gate).eval()
        fill_weights(module)

        def taken(batch: int, half: bool = False, module: torch.nn.Module = module, width: int = width):  # type: ignore[no-untyped-def]
            x = torch.randn(batch, 6, width, generator=torch.Generator().manual_seed(0))
            return record(
                module.half() if half else module, {"x": x.half() if half else x}, name="toy"
            ).listing

        base = taken(1)
        by_batch, half = delta_of(base, taken(3)), delta_of(base, taken(1, half=True))
        assert by_batch is not None and half is not None
        graph = Traced(base, (1, 64), half, (3, by_batch))
        path = root / "models" / "toys" / f"{name}.json.zst"
        write_record(ModelRecord("toys", name, name[0], "nlp", (graph,), parameters=1), path)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder after all stages, published below `out`."""
    root: Path = tmp_path_factory.mktemp("dataset")
    write_toy_records(root)
    run_stages(root, root / "out")
    return root


def run_stages(root: Path, out: Path) -> None:
    quiet = lambda _: None  # noqa: E731
    pipeline.decompose(root, report=quiet)
    pipeline.vary(root, Budget(dims=1), report=quiet)
    pipeline.check(root, count=2, report=quiet)
    pipeline.publish(root, out / "shards", out, count=2, report=quiet)


def digest(folder: Path) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_records_give_the_same_bytes(built: Path, tmp_path: Path) -> None:
    write_toy_records(tmp_path)
    run_stages(tmp_path, tmp_path / "out")
    assert digest(tmp_path / "out") == digest(built / "out")


def test_stages_find_all_three_categories_types_and_sizes(built: Path) -> None:
    graphs = list(pipeline.load_plan(built))
    assert {g.category for g in graphs} == {"sole_op_subgraphs", "fusible_subgraphs", "typical_subgraphs"}
    assert {g.dtype for g in graphs} == {"float32", "float16", "bfloat16"}
    assert {g.dim for g in graphs if g.category != "sole_op_subgraphs"} > {9}
    assert len({(g.category, g.uid) for g in graphs}) == len(graphs)
    fusible = {g.operators for g in graphs if g.category == "fusible_subgraphs"}
    assert ("operator.getitem", "torch.nn.functional.silu") in {
        pair for ops in fusible for pair in pairwise(ops)
    }


def test_verified_graphs_are_not_verified_again(built: Path) -> None:
    before = (built / "verified.jsonl").read_bytes()
    with (built / "verified.jsonl").open("a") as file:
        file.write('{"uid": "cut of')  # what a kill leaves
    pipeline.check(built, count=2, report=lambda _: None)
    assert (built / "verified.jsonl").read_bytes() == before + b'{"uid": "cut of\n'
    (built / "verified.jsonl").write_bytes(before)


def test_unpacked_samples_are_read_and_named_by_their_hash(built: Path, tmp_path: Path) -> None:
    lists = sorted((built / "out" / "sample_lists" / "eval").glob("*.txt"))
    names = [name for path in lists for name in read_sample_list(path)]
    assert unpack(built / "out" / "shards", tmp_path, names) == len(names) == 4
    for name in names:
        assert name.startswith("samples/passnet_subgraphs/")
        sample = read_sample(tmp_path / name)
        assert sample.uids is not None and sample_hash(sample.uids) == (tmp_path / name).name
        assert len(sample.uids) == len(sample.graphs)
        for ref in sample.graphs:
            graph = read_graph(ref.path)
            assert graph.sources and graph.info is not None
            hashed = (ref.path / "graph_hash.txt").read_text()
            assert (hashed == hash_of_source(graph.code)) == ("float32" in ref.listed)
    assert unpack(built / "out" / "shards", tmp_path, names) == 0


def test_csv_lists_hold_what_the_text_lists_hold(built: Path) -> None:
    for path in sorted((built / "out" / "sample_lists").rglob("*.txt")):
        assert read_sample_list(path) == read_sample_list(path.with_suffix(".csv"))
    rows = read_graph_rows(built / "out" / "graph_lists" / "passnet_fusible_eval_graph_lists_v2.csv")
    assert {row.framework for row in rows} == {"torch"} and {row.bucket for row in rows} <= set("0123456789")


def test_an_unknown_sample_is_bad_input(built: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no sample fusible_subgraphs/00"):
        unpack(built / "out" / "shards", tmp_path, ["samples/passnet_subgraphs/fusible_subgraphs/00"])
    with pytest.raises(BadInput, match="no shards"):
        unpack(tmp_path, tmp_path)


def test_a_materialised_sample_needs_nothing_outside(built: Path, tmp_path: Path) -> None:
    (name,) = read_sample_list(built / "out/sample_lists/eval/passnet_fusible_eval_samples.txt")[:1]
    unpack(built / "out" / "shards", tmp_path, [name])
    (tmp_path / "entry_scripts").mkdir()
    (tmp_path / "entry_scripts" / "entry.sh").write_text("echo\n")
    (tmp_path / "pass_bench").mkdir()
    (tmp_path / "pass_bench" / "x.py").write_text("")
    copy = materialize(tmp_path / name, tmp_path / "copy")
    assert not [path for path in copy.rglob("*") if path.is_symlink()]
    assert len(read_sample(copy).graphs) == len(read_sample(tmp_path / name).graphs)
    materialize(tmp_path / name)
    assert not [path for path in (tmp_path / name).rglob("*") if path.is_symlink()]
    assert read_sample(tmp_path / name).uids == read_sample(copy).uids
    with pytest.raises(BadInput, match="is not empty"):
        materialize(tmp_path / name, copy)


def test_a_copy_of_the_published_layout_is_imported(built: Path, tmp_path: Path) -> None:
    (name,) = read_sample_list(built / "out/sample_lists/eval/passnet_typical_eval_samples.txt")[:1]
    source, project = tmp_path / "source", tmp_path / "project"
    unpack(built / "out" / "shards", source, [name])
    (source / name / "pass_bench").rename(source / name / "graph_net_bench")
    assert import_published(source, project) == 1
    sample = read_sample(project / name)
    assert len(sample.graphs) == len(read_sample(source / name).graphs)
    assert (project / name / "graph_net_bench").is_symlink() and (project / name / "pass_dir").is_dir()
    listed = (source / name / "graph_list.txt").read_text().splitlines()[0]
    (source / listed / "weight_meta.py").write_text("nonsense(")
    with pytest.raises(BadInput, match="weight_meta"):
        import_published(source, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["dataset", "unpack", "--shards", "nowhere"], "no shards"),
        (["dataset", "vary", "--work", "nowhere"], "no model records"),
        (["dataset", "verify", "--work", "nowhere"], "no plan"),
        (["dataset", "import", "nowhere"], "not a copy of the published layout"),
        (["dataset", "materialize", "nowhere"], "no such sample"),
        (["dataset", "extract", "transformers", "--ranks", "x"], "--ranks"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(passbench, arguments) == 2
    assert words in capsys.readouterr().err


def test_no_network_is_our_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    from pass_bench.dataset.unpack import pull

    with pytest.raises(HarnessFailure, match="no route to host"):
        pull("PassNet/PassNet", tmp_path)


def test_the_page_is_generated_from_the_shards(built: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        passbench,
        ["dataset", "stats", "--shards", str(built / "out/shards"), "--out", str(tmp_path / "d.md")],
    )
    assert result.exit_code == 0
    text = (tmp_path / "d.md").read_text()
    assert "| operators |" in text and "| eval samples |" in text.replace(
        "| eval samples | eval graphs", "| eval samples |"
    )
    assert (tmp_path / "d" / "statements.png").stat().st_size > 1000


def test_the_status_counts_what_the_records_say(built: Path, tmp_path: Path) -> None:
    from pass_bench.dataset.status import status

    root = tmp_path / "work"
    shutil.copytree(built, root)
    same = read_record(root / "models" / "toys" / "A_8.json.zst")
    write_record(replace(same, name="A_again"), root / "models" / "toys" / "A_again.json.zst")
    for name, failure in (("C", "BadInput: C: too many parameters"), ("D", "killed by signal 24")):
        write_record(
            ModelRecord("toys", name, name, failure=failure), root / "models/toys" / f"{name}.json.zst"
        )
    (root / "stages.jsonl").write_text('{"stage": "vary", "seconds": 2.5, "done": 3}\n' * 2)
    (root / "checks").mkdir()
    (root / "checks" / "round_trip.txt").write_text("7 parts, 0 differ\n")
    text = status(root, 2)
    assert "| toys | 6 | 4 | 3 | 4 | 2 |" in text and "| together | 6 | 4 | 3 | 4 | 2 |" in text
    assert "| larger than the limits allow | 1 |" in text
    assert "| took more than its share of time or memory | 1 |" in text
    assert "| vary | 2 | 5 | 6 |" in text and "## Round trip\n\n```\n7 parts, 0 differ\n```" in text
    graphs = {graph.uid for graph in pipeline.load_plan(root)}
    assert f"{len(graphs)} graphs of" in text


def test_stages_note_their_time(tmp_path: Path) -> None:
    for count in (2, 3):
        with timed(tmp_path / "work", "verify") as done:
            done.append(count)
    with pytest.raises(KeyError), timed(tmp_path / "work", "verify"):
        raise KeyError("what fails is not logged")
    (line,) = stage_times(tmp_path / "work")
    assert (line.stage, line.runs, line.done) == ("verify", 2, 5)
