"""`passbench score` and the published aggregation command, from logs and stores, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pass_bench.aggregate_es_scores import command
from pass_bench.cli import passbench, run
from pass_bench.results.records import Comparison, GraphResult, TimingStats
from pass_bench.results.store import Store, StoredResult
from pass_bench.results.verdict import Verdict


def store_of(path: Path, *speedups: float) -> Path:
    stats = TimingStats(trials=9, median_us=1.0, q25_us=1.0, q75_us=1.0, min_us=1.0)
    with Store(path) as store:
        for index, speedup in enumerate(speedups):
            result = GraphResult(
                sample="samples/a",
                graph=f"g{index}",
                index=index,
                compiler="pass_mgr",
                device="cuda",
                verdict=Verdict.CORRECT,
                passes_from=-10,
                e2e=Comparison(eager=stats, compiled=stats, speedup=speedup, low=1, high=2),
            )
            store.append(str(index), StoredResult(result=result))
    return path


def test_published_command_line_on_a_real_log(
    shared_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out" / "aggregated_score.json"
    log = shared_dir / "vectors" / "reference_validation.log"
    code = run(
        command,
        [
            *("--benchmark-path", str(log), "--sample-id", "1", "--fpdb", "0.1"),
            *("--negative-speedup-penalty", "0", "--positive-tolerance-interpretation", "default"),
            *("--enable-aggregation-mode", "--output-json-file-path", str(target)),
        ],
    )
    assert code == 0
    document = json.loads(target.read_text())
    assert document["id"] == 1 and document["score"] == pytest.approx(0.8920632824855894, abs=1e-9)
    assert "aggregated_speedup=0.892063" in capsys.readouterr().out
    assert [p.name for p in target.parent.iterdir()] == ["aggregated_score.json"]


def test_aggregation_from_a_store_and_without_aggregating(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(tmp_path / "r.jsonl", 2.0, 8.0)
    target = tmp_path / "score.json"
    arguments = ["--benchmark-path", str(store), "--sample-id", "a/b", "--output-json-file-path", str(target)]
    assert run(command, arguments) == 0
    assert json.loads(target.read_text())["score"] == pytest.approx(4.0)
    assert run(command, [*arguments, "--disable-aggregation-mode"]) == 0
    document = json.loads(target.read_text())
    assert document["score"] is None and document["es"]["-5"] == pytest.approx(4.0)
    assert document["id"] == "a/b"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--benchmark-path", "none.log"],
        ["--benchmark-path", "{log}", "--fpdb", "0"],
        ["--benchmark-path", "{log}", "--negative-speedup-penalty", "-1"],
        ["--benchmark-path", "{log}", "--positive-tolerance-interpretation", "other"],
        ["--benchmark-path", "{log}", "--positive-tolerance-interpretation", "mismatch_extended"],
        ["--sample-id", "1"],
    ],
)
def test_bad_usage_exits_2_and_writes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    log = store_of(tmp_path / "r.jsonl", 2.0)
    target = tmp_path / "score.json"
    filled = [argument.format(log=log) for argument in arguments]
    assert run(command, [*filled, "--output-json-file-path", str(target)]) == 2
    assert not target.exists()


def test_score_where_it_cannot_be_written_exits_3(tmp_path: Path) -> None:
    store = store_of(tmp_path / "r.jsonl", 2.0)
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "score.json"
    assert run(command, ["--benchmark-path", str(store), "--output-json-file-path", str(target)]) == 3


def test_score_command_prints_a_row_per_sample(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = store_of(tmp_path / "r.jsonl", 2.0, 8.0)
    assert run(passbench, ["score", str(store)]) == 0
    assert "AS over 1 samples: 4.000" in capsys.readouterr().out
    assert run(passbench, ["score", str(store), "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["fast"] == {"1": 1.0, "1.5": 1.0, "2": 1.0}


def test_scoring_needs_no_torch(tmp_path: Path) -> None:
    store = store_of(tmp_path / "r.jsonl", 2.0)
    script = (
        "import sys; sys.modules['torch'] = None; from pass_bench.cli import passbench, run; "
        f"sys.exit(run(passbench, ['score', {str(store)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
