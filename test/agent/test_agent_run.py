"""Whole runs against a scripted model and a real local process."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_fixtures import (
    EVALUATE,
    SUBMIT,
    make_dataset,
    make_sample,
    make_script,
    passagent,
    read_lines,
    write_pass,
)


def run(tmp_path: Path, turns: object, *more: str, samples: int = 1) -> tuple[list[dict], str]:
    found = [make_sample(tmp_path / f"task_{number}") for number in range(samples)]
    dataset = make_dataset(tmp_path / "data.jsonl", found)
    script = make_script(tmp_path / "script.json", turns)
    arguments = ["run", "--llm-name", f"scripted:{script}", "--dataset", dataset, "--runtime", "local"]
    ran = passagent(*arguments, "--traj-dir", tmp_path / "traj", "--exp-name", "exp", "--k", samples, *more)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return read_lines(tmp_path / "traj" / "exp.jsonl"), ran.stdout


def test_a_run_keeps_the_best_pass_set(tmp_path: Path) -> None:
    turns = [
        write_pass(speedup=1.5),
        EVALUATE,
        write_pass(speedup=3.0),
        EVALUATE,
        write_pass(speedup=2.0),
        EVALUATE,
        SUBMIT,
    ]
    (line,), output = run(tmp_path, turns)
    assert line["exit_reason"] == "agent"
    assert line["reward"] == pytest.approx(3.0)
    assert line["solved"] is True
    assert len(line["trajectory_steps"]) == 7
    assert "speedup: 3.0" in (tmp_path / "traj/exp/tasks/task_0/pass_dir/one.py").read_text()
    assert "+# speedup: 3.0" in line["output_patch"]
    assert "pass@1 100.0%" in output
