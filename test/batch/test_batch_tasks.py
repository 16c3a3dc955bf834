"""Which graphs a list stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pass_bench.batch.commands import parse_devices
from pass_bench.batch.executor import default_jobs
from pass_bench.batch.run import task_key
from pass_bench.batch.tasks import find_samples, graph_tasks, parse_shard, sample_tasks, submission_pass_dir
from pass_bench.cli import passbench, run
from pass_bench.compilers import compiler_named
from pass_bench.errors import BadInput
from pass_bench.results.records import EnvironmentRecord, EvalSettings, GraphResult
from pass_bench.results.store import read_store
from pass_bench.results.verdict import Verdict
from pass_bench.worker.output import OutputFolder


@pytest.fixture
def three(make_sample: Callable[..., Path], tmp_path: Path) -> Path:
    """Three samples a, b, c of two graphs each, and their list."""
    from tiny_sample import MODEL

    for name in ("a", "b", "c"):
        make_sample(graphs={"one": MODEL, "two": MODEL.replace("in_0 + in_1", "in_0 - in_1")}, name=name)
    (tmp_path / "list.txt").write_text("a\nb\nc\n")
    return tmp_path


def test_a_list_a_folder_and_a_sample_name_the_same_samples(three: Path) -> None:
    by_list = [path for _, path in find_samples([three / "list.txt"])]
    assert by_list == [three / "a", three / "b", three / "c"]
    assert [path for _, path in find_samples([three])] == by_list
    assert [path for _, path in find_samples([three / "b", three / "a"])] == [three / "b", three / "a"]
    assert len(find_samples([three / "list.txt", three / "list.txt"])) == 3


def test_a_csv_list_has_a_header(three: Path) -> None:
    (three / "list.csv").write_text("sample_path\r\nc\r\na\r\n", newline="")
    assert [name for name, _ in find_samples([three / "list.csv"])] == ["c", "a"]


def test_graphs_come_sample_after_sample_compilers_inside(three: Path) -> None:
    samples = sample_tasks([three / "list.txt"], None, None)
    tasks = graph_tasks(samples, [("pass_mgr_direct", True), ("inductor", False)])
    order = [(task.owner.name, task.index, task.compiler) for task in tasks]
    assert order[:4] == [
        ("a", 0, "pass_mgr_direct"),
        ("a", 0, "inductor"),
        ("a", 1, "pass_mgr_direct"),
        ("a", 1, "inductor"),
    ]
    assert len(order) == 12
    assert tasks[0].graph_key != tasks[2].graph_key
    assert tasks[0].pass_key and not tasks[1].pass_key


def test_shards_are_disjoint_and_complete(three: Path) -> None:
    samples = sample_tasks([three / "list.txt"], None, None)
    whole = {(t.owner.name, t.index) for t in graph_tasks(samples, [("nope", False)])}
    parts = [
        {(t.owner.name, t.index) for t in graph_tasks(samples, [("nope", False)], shard=(i, 2))}
        for i in (1, 2)
    ]
    assert parts[0] | parts[1] == whole and not parts[0] & parts[1]
    assert {t.owner.name for t in graph_tasks(samples, [("nope", False)], limit=2)} == {"a", "b"}


def test_a_submission_mirrors_the_samples_by_any_tail_of_their_path(tmp_path: Path) -> None:
    for place in ("samples/x/y", "z/pass_dir"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "sorted_output_pass_rule_names.json").write_text("[]")
    assert submission_pass_dir(tmp_path, "samples/x/y", tmp_path) == tmp_path / "samples/x/y"
    assert submission_pass_dir(tmp_path, "/data/samples/x/y", tmp_path) == tmp_path / "samples/x/y"
    assert submission_pass_dir(tmp_path, "samples/x/z", tmp_path) == tmp_path / "z/pass_dir"
    assert submission_pass_dir(tmp_path, "samples/x/w", tmp_path) is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda d: find_samples([d / "nothing.txt"]), "no such list or directory"),
        (lambda d: find_samples([d / "empty"]), "no sample below it"),
        (lambda d: find_samples([d / "bad.txt"]), "no sample at 'nowhere'"),
        (lambda d: find_samples([d / "blank.txt"]), "no sample in it"),
        (lambda d: sample_tasks([d / "list.txt"], None, d / "no-passes"), "no such folder of passes"),
        (lambda d: parse_shard("0/3"), "--shard 0/3"),
        (lambda d: parse_shard("4/3"), "1 <= i <= n"),
        (lambda d: parse_shard("x"), "--shard x"),
        (lambda d: parse_devices("0,0"), "--devices 0,0"),
        (lambda d: parse_devices("gpu"), "auto, cpu, or different GPU numbers"),
    ],
)
def test_bad_input_is_one_line(three: Path, call: Callable[[Path], object], words: str) -> None:
    (three / "empty").mkdir()
    (three / "bad.txt").write_text("nowhere\n")
    (three / "blank.txt").write_text("# nothing\n\n")
    with pytest.raises(BadInput) as caught:
        call(three)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_devices_and_shards_parse() -> None:
    assert parse_devices("0,1") == ["0", "1"]
    assert parse_devices("cpu") == ["cpu"]
    assert parse_shard("2/4") == (2, 4)


def test_jobs_follow_the_cores_that_a_gpu_has() -> None:
    assert default_jobs(0, 64) == default_jobs(0) == 1
    assert default_jobs(1, 12) == 6
    assert [default_jobs(2, processors) for processors in (4, 12, 200)] == [2, 3, 8]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--executor", "ray", "--devices", "0"], "--devices 0 with --executor ray"),
        (["--regimes", "random"], "the recorded regime cannot be left out"),
        (["--regimes", "recorded,sunny"], "unknown regime 'sunny'"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    three: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(passbench, ["batch", str(three), *arguments, "--out", str(three / "out")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


@pytest.mark.parametrize("compiler", ["pass_mgr_direct", "nope"])
def test_eval_and_batch_keep_a_graph_under_one_key(
    make_sample: Callable[..., Path], tmp_path: Path, compiler: str
) -> None:
    task = graph_tasks(
        sample_tasks([make_sample(name="a")], None, None), [(compiler, compiler_named(compiler).uses_passes)]
    )[0]
    settings = EvalSettings(compiler=compiler)
    environment = EnvironmentRecord(harness="1", python="3", torch="2", device="cpu", device_name="x")
    sample = task.owner.sample
    result = GraphResult(
        sample=str(sample.path),
        graph=task.listed,
        index=0,
        compiler=compiler,
        device="cpu",
        verdict=Verdict.CORRECT,
    )
    passes = (sample.pass_dir, None)
    with OutputFolder(tmp_path / "out", sample, settings, environment, passes=passes) as folder:
        folder.add(result)
    kept = read_store(tmp_path / "out" / "results.jsonl").entries
    assert [entry.key for entry in kept] == [task_key(task, settings, environment)]
