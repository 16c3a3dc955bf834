"""Leaderboard, comparison and the plain formats: worked-out numbers, hostile text, bad input."""

from __future__ import annotations

import csv
import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from report_stores import ENVIRONMENT, comparison, write_store

from pass_bench.cli import passbench, run
from pass_bench.report.compare import Change, compare, pairs_to_compare
from pass_bench.report.leaderboard import standings
from pass_bench.report.load import load_submissions, sample_name
from pass_bench.report.markdown import plain
from pass_bench.report.sources import SourceTexts
from pass_bench.results.records import Comparison, GraphResult
from pass_bench.results.store import Store, StoredResult, read_results
from pass_bench.results.verdict import Verdict


def timed(speedup: float, low: float | None = None, high: float | None = None) -> Comparison:
    made = comparison(random.Random(0), speedup, 100.0)
    return made.model_copy(update={"low": low or speedup * 0.99, "high": high or speedup * 1.01})


def result(graph: str, verdict: Verdict, e2e: Comparison | None = None, **fields: object) -> GraphResult:
    basic = {
        "sample": "/somewhere/samples/lib/one",
        "graph": graph,
        "index": int(graph[1:]),
        "compiler": "pass_mgr",
        "device": "cuda",
        "verdict": verdict,
        "passes_from": -6 if verdict is Verdict.CORRECT else None,
        "e2e": e2e,
    }
    return GraphResult.model_validate({**basic, **fields})


def store(path: Path, *results: GraphResult, submission: str = "") -> Path:
    with Store(path) as opened:
        name = opened.add_environment(ENVIRONMENT)
        for item in results:
            key = f"{item.sample}{item.graph}{item.compiler}"
            opened.append(key, StoredResult(submission=submission, environment=name, result=item))
    return path


def test_a_compiler_without_passes_is_a_baseline(tmp_path: Path) -> None:
    compilers = ("inductor_reduce_overhead", "inductor_direct", "nope", "pass_mgr_graph")
    results = [result("g0", Verdict.CORRECT, timed(2.0), compiler=name) for name in compilers]
    board = standings(load_submissions([store(tmp_path / "s.jsonl", *results)]))
    assert {s.submission.compiler for s in board if not s.baseline} == {"pass_mgr_graph"}


def test_leaderboard_of_worked_out_numbers(tmp_path: Path) -> None:
    ok, bad = Verdict.CORRECT, Verdict.RUNTIME_FAIL
    inductor = {"compiler": "inductor"}
    path = store(
        tmp_path / "mine.jsonl",
        result("g0", ok, timed(4.0)),
        result("g1", ok, timed(1.0), weak_at=-4),
        result("g2", bad),
        result("g3", Verdict.INFRA),
        result("g4", ok, timed(0.01), interpreted=True),
        result("g5", ok, timed(9.0), sample="/x/samples/lib/two"),
        result("g0", ok, timed(2.0), **inductor),
        result("g1", ok, timed(2.0), **inductor),
        result("g2", ok, timed(2.0), **inductor),
        result("g5", bad, sample="/x/samples/lib/two", **inductor),
    )
    board = standings(load_submissions([path]))
    assert [s.submission.title for s in board] == ["mine · pass_mgr", "mine · inductor"]
    mine, theirs = board
    assert (mine.graphs, mine.judged, mine.correct, mine.weak) == (6, 5, 4, 1)
    assert mine.speedup == pytest.approx((4 * 1 * 9) ** (1 / 3))
    assert mine.fast == {1.0: 0.75, 1.5: 0.5, 2.0: 0.5}
    assert mine.es[-5] == pytest.approx((((4 * 1 * 0.1) ** (1 / 3)) * 9) ** 0.5)
    assert mine.left_out == {
        "infra (ours to fix)": 1,
        "interpreted (verified, but the time is not a speed)": 1,
    }
    assert mine.score == pytest.approx(
        (mine.by_sample["lib/one"].score or 0) ** 0.5 * (mine.by_sample["lib/two"].score or 0) ** 0.5
    )
    assert mine.inductor is not None and theirs.inductor is None and theirs.baseline
    assert mine.inductor.graphs == 3  # g0, g1, and g2 that only Inductor got right; g5 it got wrong
    assert mine.inductor.speedup == pytest.approx((2.0 * 0.5) ** 0.5)
    assert mine.inductor.fast == {
        1.0: pytest.approx(1 / 3),
        1.5: pytest.approx(1 / 3),
        2.0: pytest.approx(1 / 3),
    }


def test_comparison_is_decided_by_intervals(tmp_path: Path) -> None:
    ok = Verdict.CORRECT
    first = [
        result("g0", ok, timed(1.0, 0.9, 1.1)),
        result("g1", ok, timed(1.0, 0.9, 1.1)),
        result("g2", ok, timed(1.0, 0.9, 1.1)),
        result("g3", Verdict.ACCURACY, timed(5.0)),
        result("g4", ok, timed(1.0)),
        result("g5", Verdict.INFRA),
        result("g6", Verdict.TIMEOUT),
        result("g7", ok, timed(1.0), interpreted=True),
        result("g8", ok, timed(1.0)),
    ]
    second = [
        result("g0", ok, timed(1.3, 1.2, 1.4)),
        result("g1", ok, timed(1.15, 1.05, 1.2)),
        result("g2", ok, timed(0.8, 0.7, 0.89)),
        result("g3", ok, timed(0.5)),
        result("g4", Verdict.PASS_MISS),
        result("g5", ok, timed(9.0)),
        result("g6", Verdict.PASS_MISS),
        result("g7", ok, timed(9.0)),
        result("g9", ok, timed(1.0)),
    ]
    paths = [store(tmp_path / "a.jsonl", *first), store(tmp_path / "b.jsonl", *second)]
    compared = compare(*load_submissions(paths))
    found: dict[str, Change] = {change.name[1]: change.change for change in compared.changes}
    assert found == {
        "g0": "better",
        "g1": "same",
        "g2": "worse",
        "g3": "better",
        "g4": "worse",
        "g5": "incomparable",
        "g6": "same",
        "g7": "incomparable",
    }
    assert (compared.only_first, compared.only_second) == (1, 1)
    assert compared.ratio == pytest.approx((1.3 * 1.15 * 0.8) ** (1 / 3))
    assert compared.same_environment


def test_passes_are_compared_first_and_from_the_baseline(tmp_path: Path) -> None:
    one = write_store(tmp_path / "a.jsonl", "a", 1, graphs=1)
    two = write_store(tmp_path / "b.jsonl", "b", 1, graphs=1, compilers=("pass_mgr_direct",))
    submissions = load_submissions([one, two])
    titles = [submission.title for submission in submissions]
    assert titles == ["a · pass_mgr_direct", "a · inductor", "b · pass_mgr_direct"]
    assert pairs_to_compare(submissions) == [(0, 2), (1, 0), (1, 2)]
    assert pairs_to_compare(submissions * 2) == [(0, 2), (0, 3), (0, 5), (1, 0), (4, 0)]


def test_labels_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    paths = [
        store(tmp_path / "run" / "results.jsonl", result("g0", Verdict.TIMEOUT)),
        store(tmp_path / "x.jsonl", result("g0", Verdict.TIMEOUT), submission="run"),
        store(tmp_path / "run.jsonl", result("g0", Verdict.TIMEOUT)),
    ]
    assert [s.label for s in load_submissions(paths)] == ["run", "run (2)", "run (3)"]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/a/samples/hf/x", "hf/x"),
        ("samples/fusible_subgraphs/m/s", "fusible_subgraphs/m/s"),
        ("/home/samples/b/samples/c", "c"),
        ("a/b", "a/b"),
        ("/tmp/copied", "copied"),
        ("/tmp/samples", "samples"),
    ],
)
def test_a_sample_is_the_same_wherever_it_lies(path: str, name: str) -> None:
    assert sample_name(path) == name


def hostile(path: Path) -> Path:
    nasty = "=HYPERLINK(1)|<img src=x onerror=alert(1)>\x1b[2J`*_[red]\nsecond"
    broken = result("g0", Verdict.TIMEOUT, sample="samples/" + nasty.replace("/", ""), reason=nasty)
    return store(path, broken, submission="[bold]<b>|x|")


def test_csv_cannot_be_a_formula_and_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(passbench, ["report", str(hostile(tmp_path / "r.jsonl")), "--format", "csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert row["reason"].startswith("'=HYPERLINK") and row["sample"].startswith("'=")
    assert row["verdict"] == "timeout" and row["speedup"] == "" and row["submission"] == "[bold]<b>|x|"


def test_csv_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = store(
        tmp_path / "r.jsonl",
        result("g0", Verdict.CORRECT, timed(3.0, 2.5, 3.5)),
        result("g0", Verdict.CORRECT, timed(2.0), compiler="inductor"),
        result("g1", Verdict.CORRECT, timed(0.001), interpreted=True),
    )
    assert run(passbench, ["report", str(path), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["compiler"] for row in rows] == ["pass_mgr", "pass_mgr", "inductor"]
    assert (rows[0]["speedup"], rows[0]["low"], rows[0]["high"]) == ("3.0", "2.5", "3.5")
    assert float(rows[0]["vs_inductor"]) == 1.5 and rows[0]["passes_from"] == "-6"
    assert rows[1]["interpreted"] == "1" and rows[1]["speedup"] == "" and rows[1]["correct"] == "1"


def test_terminal_and_markdown_are_not_moved_by_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(hostile(tmp_path / "r.jsonl"))
    assert run(passbench, ["report", path]) == 0
    shown = capsys.readouterr().out
    assert "\x1b[2J" not in shown and "[bold]<b>|x|" in shown
    assert run(passbench, ["report", path, "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text and "<b>" not in text and "<img" not in text
    assert plain("a|b<c>&*") == "a\\|b&lt;c\\>&amp;\\*"


def test_markdown_has_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_store(tmp_path / "a.jsonl", "a", 2, graphs=3)
    two = write_store(tmp_path / "b.jsonl", "b", 2, graphs=3, seed=4)
    assert run(passbench, ["report", str(one), str(two), "--out", str(tmp_path / "r.md")]) == 0
    text = (tmp_path / "r.md").read_text()
    for heading in (
        "# PassNet report",
        "## Leaderboard",
        "## ES(t)",
        "## Verdicts",
        "## Changes",
        "## Samples",
    ):
        assert heading in text
    for block in text.split("\n\n"):
        if block.startswith("| "):
            widths = {line.replace("\\|", "").count("|") for line in block.splitlines()}
            assert len(widths) == 1, block


@pytest.mark.parametrize(
    "arguments",
    [
        ["none.jsonl"],
        ["{store}", "--format", "html"],
        ["{store}", "--format", "pdf"],
        ["{store}", "--floor", "0"],
        ["{empty}"],
        ["{other}"],
        [],
    ],
)
def test_bad_usage_exits_2(tmp_path: Path, arguments: list[str]) -> None:
    names = {"store": write_store(tmp_path / "s.jsonl", "s", 1, graphs=1)}
    names |= {"empty": tmp_path / "empty.jsonl", "other": tmp_path / "other.jsonl"}
    names["empty"].write_text("")
    names["other"].write_text("hello\n")
    assert run(passbench, ["report", *(argument.format(**names) for argument in arguments)]) == 2


def test_a_report_that_cannot_be_written_exits_3_and_leaves_nothing(tmp_path: Path) -> None:
    path = write_store(tmp_path / "s.jsonl", "s", 1, graphs=1)
    (tmp_path / "file").write_text("")
    assert run(passbench, ["report", str(path), "--out", str(tmp_path / "file" / "r.md")]) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "s.jsonl"]


def test_merge_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_store(tmp_path / "a.jsonl", "a", 1, graphs=2, compilers=("nope",))
    two = write_store(tmp_path / "b.jsonl", "a", 2, graphs=2, compilers=("nope",))
    out = tmp_path / "all.jsonl"
    assert run(passbench, ["merge", str(one), str(two), "--out", str(out)]) == 0
    assert "4 results taken in" in capsys.readouterr().out
    assert run(passbench, ["merge", str(one), str(tmp_path / "none"), "--out", str(out)]) == 2


def test_source_texts_are_kept_once(tmp_path: Path) -> None:
    for name, text in (("a", "same"), ("b", "same"), ("c", "x" * 40_000)):
        folder = tmp_path / "samples" / "s" / "graphs" / name
        folder.mkdir(parents=True)
        (folder / "model.py").write_text(text)
    sources = SourceTexts([tmp_path / "none", tmp_path])
    assert [sources.number_of("samples/s", f"graphs/{name}") for name in "abcd"] == [0, 0, 1, None]
    assert sources.texts[0] == "same" and "10000 more characters" in sources.texts[1]


def write_texts(root: Path, store_path: Path, least: int = 4096, most: int = 8192) -> int:
    """Write a model.py for every graph of a store, all different; returns how many."""
    graphs = sorted({result.graph for result in read_results(store_path)})
    for number, graph in enumerate(graphs):
        rng = random.Random(number)
        lines, size = [], rng.randint(least, most)
        while sum(map(len, lines)) < size:
            i, shape = len(lines), rng.choices((1, 12, 49, 64, 77, 196, 384, 768, 1024, 3072), k=3)
            one, two = (f"{rng.choice(('in', 'tmp'))}_{rng.randrange(i + 1)}" for _ in range(2))
            function = rng.choice(("linear", "layer_norm", "gelu", "softmax", "dropout", "conv2d"))
            line = rng.choice(
                (
                    f"{one} + {two};  {one} = {two} = None",
                    f"{one} * {rng.uniform(0, 2)}",
                    f"torch.nn.functional.{function}({one}, {two}, {tuple(shape)})",
                    f"{one}.view({', '.join(map(str, shape))}).transpose({rng.randrange(3)}, -1)",
                    f"{one}[slice(None, {shape[0]}, None), {shape[1]}];  {one} = None",
                    f"torch.cat(({one}, {two}), dim={rng.randrange(4)});  {two} = None",
                )
            )
            lines.append(f"        tmp_{i} = {line}\n")
        (root / graph).mkdir(parents=True)
        head = "import torch\n\n\nclass GraphModule(torch.nn.Module):\n    def forward(self, in_0, in_1):\n"
        (root / graph / "model.py").write_text("".join((head, *lines, f"        return (tmp_{i},)\n")))
    return len(graphs)


@pytest.mark.parametrize(
    "records", [1000, *(pytest.param(count, marks=pytest.mark.full) for count in (4000, 10_000))]
)
def test_a_large_report_is_fast_and_small(tmp_path: Path, records: int) -> None:
    store_path = write_store(tmp_path / "s.jsonl", "s", records // 20)
    graphs = write_texts(tmp_path, store_path)
    assert graphs == records // 2  # each under two compilers
    target = tmp_path / "r.html"
    arguments = ["report", str(store_path), "--root", str(tmp_path), "--out", str(target)]
    script = (
        "import json, resource, sys\n"
        "sys.modules['torch'] = None\n"
        "from pass_bench.cli import passbench, run\n"
        f"code = run(passbench, {arguments!r})\n"
        "usage = resource.getrusage(resource.RUSAGE_SELF)\n"
        # not ru_maxrss: it remembers the test process that this one was forked from
        "peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n"
        "print(json.dumps([code, usage.ru_utime + usage.ru_stime, int(peak)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    code, seconds, kilobytes = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert seconds < 10 * max(records / 10_000, 0.3)
    assert kilobytes < 500_000
    assert target.stat().st_size < 5_000_000 * graphs / 2000
