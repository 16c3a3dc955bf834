"""entry.sh and the published command lines, as a user of a sample runs them."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TINY = {
    "PASSNET_WARMUP": "1",
    "PASSNET_TRIALS": "3",
    "PASSNET_DEVICE": "cpu",
    "PASSNET_PYTHON": sys.executable,
}
PUBLISHED = """#!/bin/bash
set -e
SAMPLE_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
OUTPUT="$1"
rm -f "$OUTPUT/aggregated_score.json"
mkdir -p "$OUTPUT"
CONFIG=$(base64 -w 0 <<JSON
{
  "pass_match_result_file_path": "$OUTPUT/pass_match_result.json",
  "input_pass_rule_dir": "$SAMPLE_DIR/const_pass_dir",
  "output_pass_rule_dir": "$SAMPLE_DIR/pass_dir",
  "output_pass_pattern_limit": 8,
  "output_pass_replacement_func_limit": 1
}
JSON
)
cd "$SAMPLE_DIR"
python3 -m pass_bench.torch.test_compiler --model-path-prefix "$SAMPLE_DIR" \\
  --allow-list "$SAMPLE_DIR/graph_list.txt" --compiler pass_mgr --device cuda \\
  --warmup 1 --trials 3 --log-prompt graph-net-test-compiler-log --config "$CONFIG" \\
  > "$OUTPUT/validation.log" 2>&1
python3 -m pass_bench.aggregate_es_scores --benchmark-path "$OUTPUT/validation.log" --sample-id 1 \\
  --fpdb 0.1 --negative-speedup-penalty 0 --positive-tolerance-interpretation default \\
  --enable-aggregation-mode --output-json-file-path "$OUTPUT/aggregated_score.json"
"""


@pytest.fixture
def sample(make_sample: Callable[..., Path], repository: Path) -> Path:
    folder = make_sample()
    (folder / "entry.sh").symlink_to(repository / "entry_scripts" / "entry.sh")
    (folder / "pass_bench").symlink_to(repository / "pass_bench")
    return folder


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run(
        command, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=300
    )


def score(folder: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((folder / "aggregated_score.json").read_text())
    return document


def test_entry_script_writes_score_results_and_log(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "aggregated_score.json").write_text('{"score": 99}')
    done = run(["bash", str(sample / "entry.sh")], Path("/"), PASSNET_EVAL_OUTPUT=str(out), **TINY)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 graphs correct at t = -5" in done.stdout
    assert score(out)["correct"] == 1
    assert {file.name for file in out.iterdir()} >= {"results.jsonl", "eval.log", "aggregated_score.json"}


def test_a_failed_run_leaves_no_score_of_the_last_one(sample: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "aggregated_score.json").write_text('{"score": 99}')
    (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text("{}")
    done = run(["bash", str(sample / "entry.sh")], Path("/"), PASSNET_EVAL_OUTPUT=str(out), **TINY)
    assert done.returncode == 2
    assert "not a list of names" in done.stderr and done.stderr.count("\n") == 1
    assert list(out.iterdir()) == []


def test_a_copied_sample_runs_its_own_copy_of_the_package(
    sample: Path, repository: Path, tmp_path: Path
) -> None:
    """Copied elsewhere, under the older package name, called through a link, from a folder with a decoy."""
    copy = tmp_path / "elsewhere" / "copied"
    shutil.copytree(sample, copy, symlinks=False, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "pass_bench").rename(copy / "graph_net_bench")
    environment = copy / "graph_net_bench" / "worker" / "environment.py"
    environment.write_text(environment.read_text().replace('version_of("passnet") or "source"', '"the copy"'))
    decoy = tmp_path / "decoy"
    (decoy / "pass_bench").mkdir(parents=True)
    (decoy / "pass_bench" / "__init__.py").write_text("raise SystemExit('the decoy was imported')")
    (decoy / "link.sh").symlink_to(copy / "entry.sh")
    out = tmp_path / "out"
    done = run(["bash", "link.sh", "--json"], decoy, PASSNET_EVAL_OUTPUT=str(out), **TINY)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["environment"]["harness"] == "the copy"
    assert score(out)["correct"] == 1


def test_a_published_entry_script_runs_unchanged(sample: Path, tmp_path: Path) -> None:
    (sample / "entry.sh").unlink()
    (sample / "entry.sh").write_text(PUBLISHED)
    out = tmp_path / "out"
    binaries = str(Path(sys.executable).parent)
    done = run(
        ["bash", str(sample / "entry.sh"), str(out)],
        tmp_path,
        PASSNET_DEVICE="cpu",
        PATH=f"{binaries}:{os.environ['PATH']}",
    )
    log = (out / "validation.log").read_text() if (out / "validation.log").exists() else ""
    assert (done.returncode, done.stderr) == (0, ""), log
    assert "graph-net-test-compiler-log [Processing] graphs/tiny" in log
    assert "[PassMgrBackend] Applied 1 replacements with AddRelu." in log
    assert "graph-net-test-compiler-log [Result] status: success" in log
    assert "graph-net-test-compiler-log [Speedup][e2e]: " in log
    assert json.loads((out / "pass_match_result.json").read_text()) == {"graphs/tiny": {"AddRelu": 1}}
    document = score(out)
    assert document["id"] == 1
    speedup = float(log.split("[Speedup][e2e]: ")[1].split()[0])
    assert document["speedup"] == pytest.approx(speedup, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config", "%%%"], "--config is not base64"),
        (["--config", base64.b64encode(b"[1]").decode()], "--config: Input should be an object"),
        (["--model-path", "nowhere"], "no graph at 'nowhere'"),
        ([], "give either --allow-list or --model-path"),
        (["--model-path", "graphs/tiny", "--compiler", "magic"], "unknown compiler 'magic'"),
    ],
)
def test_bad_arguments_of_the_published_command(sample: Path, arguments: list[str], words: str) -> None:
    done = run([sys.executable, "-m", "pass_bench.torch.test_compiler", *arguments], sample)
    assert done.returncode == 2
    assert words in done.stderr and done.stderr.count("\n") == 1
