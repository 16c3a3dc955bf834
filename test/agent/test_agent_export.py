"""Exporters: what is kept, what is left out and why, and the arithmetic of weights and rewards."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from agent_fixtures import (
    EVALUATE,
    SUBMIT,
    call,
    make_dataset,
    make_sample,
    make_script,
    read_lines,
    write_pass,
)

from pass_agent.agent.runner import Runner
from pass_agent.agent.settings import RunSettings
from pass_agent.cli import passagent as cli
from pass_agent.cli import run as run_cli

CONFIG = """
system_prompt: You write passes.
instance_prompt: "{problem_statement}"
command_files: [tools/file_editor.py, tools/pass_evaluator.py, tools/submit.py]
"""
GOOD = [
    {**write_pass(speedup=2.0), "content": "first", "reasoning": "hm"},
    EVALUATE,
    {"calls": [{"name": "file_editor", "arguments": "{"}]},
    call("pass_evaluator"),
    write_pass(speedup=20.0),
    EVALUATE,
    write_pass(speedup=1.0),
    EVALUATE,
    SUBMIT,
]


def run(folder: Path, script: dict[str, Any], attempts: int = 1) -> Path:
    """One task for every key of the script; returns `<exp>.jsonl`."""
    folder.mkdir(exist_ok=True)
    names = list(script)
    dataset = make_dataset(folder / "data.jsonl", [make_sample(folder / name, graphs=1) for name in names])
    (folder / "config.yaml").write_text(CONFIG)
    path = make_script(folder / "script.json", {"tasks": script})
    settings = RunSettings(
        dataset=dataset,
        config=folder / "config.yaml",
        traj_dir=folder / "traj",
        exp_name="exp",
        llm_name=f"scripted:{path}",
        k=0,
        runtime="local",
        few_shot=False,
        attempts=attempts,
    )
    Runner(settings, lambda line: None).run()
    return folder / "traj" / "exp.jsonl"


def export(source: Path, form: str, *more: str) -> tuple[list[dict[str, Any]], int]:
    out = source.with_name(f"{form}.jsonl")
    code = run_cli(cli, ["export", str(source), "--format", form, "--out", str(out), *more])
    return (read_lines(out) if code == 0 else []), code


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """good: 2x then 20x; slow: 0.5x; infra: the harness fails once; rejected: a broken rule."""
    return run(
        tmp_path_factory.mktemp("export") / "run",
        {
            "good": GOOD,
            "slow": [write_pass(speedup=0.5), EVALUATE, SUBMIT],
            "infra": [write_pass(exit=3), EVALUATE, write_pass(speedup=3.0), EVALUATE, SUBMIT],
            "rejected": [write_pass(verdict="rejected"), EVALUATE, write_pass(speedup=2.0), EVALUATE, SUBMIT],
        },
    )


def tasks(lines: list[dict[str, Any]]) -> list[str]:
    return sorted(
        {line["instance_id"] if "instance_id" in line else line["ds"]["instance_id"] for line in lines}
    )


def test_openai_weights_stop_at_the_best_step_and_skip_failed_turns(finished: Path) -> None:
    lines, _ = export(finished, "openai", "--min-score", "10")
    (line,) = lines
    weights = [message["weight"] for message in line["messages"] if message["role"] == "assistant"]
    assert weights == [1, 1, 0, 1, 1, 1, 0, 0, 0]
    assert [tool["function"]["name"] for tool in line["tools"]] == ["file_editor", "pass_evaluator", "submit"]
    assert "reasoning_content" not in json.dumps(line)
    for message in line["messages"]:
        for sent in message.get("tool_calls", []):
            json.loads(sent["function"]["arguments"])


def test_trl_gives_one_example_for_every_answer_worth_learning(finished: Path) -> None:
    lines, _ = export(finished, "trl", "--min-score", "10")
    assert len(lines) == 5
    first = lines[0]
    assert [message["role"] for message in first["prompt"]] == ["system", "user"]
    assert first["completion"][0]["content"].startswith(
        "first\n\n<function=file_editor>\n<parameter=command>create"
    )
    for line in lines:
        roles = [message["role"] for message in line["prompt"][1:]]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]


def test_r2e_keeps_the_trajectories_as_they_are(finished: Path) -> None:
    lines, _ = export(finished, "r2e", "--allow-infra", "--allow-rejected")
    assert lines == read_lines(finished)


def test_grpo_rewards_add_up_and_advantages_compare_within_the_task(tmp_path: Path) -> None:
    # Attempts replay the same script; the journals differ only in what the harness measured.
    source = run(tmp_path, {"good": GOOD}, attempts=2)
    lines = read_lines(source)
    lines[1]["reward"] = 2.0
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found, _ = export(source, "grpo")
    (group,) = {line["group_id"] for line in found}
    assert group.startswith("good:")
    assert [line["group_size"] for line in found] == [2, 2]
    assert sum(found[0]["turn_rewards"]) == pytest.approx(math.log10(20.0 / 0.1))
    assert found[0]["turn_rewards"][1] == pytest.approx(math.log10(2.0 / 0.1))
    assert [round(line["advantage"], 3) for line in sorted(found, key=lambda one: -one["reward"])] == [
        1.0,
        -1.0,
    ]
    assert found[0]["completion"][0]["role"] == "assistant"


def test_dpo_pairs_pass_sets_of_one_task(finished: Path) -> None:
    lines, _ = export(finished, "dpo", "--min-score", "10")
    scores = [(round(line["score_chosen"], 3), round(line["score_rejected"], 3)) for line in lines]
    assert scores == [(20.0, 2.0), (20.0, 1.0), (2.0, 1.0)]
    assert "# speedup: 20.0" in lines[0]["chosen"][0]["content"]
    assert "# speedup: 2.0" in lines[0]["rejected"][0]["content"]
    lines, _ = export(finished, "dpo", "--min-score", "10", "--pairs", "1")
    assert len(lines) == 1
    lines, _ = export(finished, "dpo", "--min-score", "10", "--margin", "5")
    assert [line["score_rejected"] for line in lines] == [pytest.approx(2.0), pytest.approx(1.0)]


def test_a_rejected_set_is_only_ever_the_worse_one(finished: Path) -> None:
    lines, _ = export(finished, "dpo", "--allow-rejected")
    (pair,) = [line for line in lines if line["instance_id"] == "rejected"]
    assert (pair["score_chosen"], pair["score_rejected"]) == (pytest.approx(2.0), 0.0)
    assert "verdict: rejected" in pair["rejected"][0]["content"]


def test_filters_say_what_they_left_out(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, _ = export(finished, "trl")
    assert tasks(lines) == ["good", "slow"]
    said = capsys.readouterr().out
    assert "left out: 1 attempts, the harness failed in them" in said
    assert "left out: 1 attempts, an integrity rule was broken in them" in said
    lines, _ = export(finished, "trl", "--improved", "--allow-infra", "--allow-rejected")
    assert tasks(lines) == ["good", "rejected"]
    lines, _ = export(finished, "trl", "--min-score", "1", "--allow-infra", "--allow-rejected")
    assert tasks(lines) == ["good", "infra", "rejected"]


def test_doubles_are_written_once(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = finished.with_name("twice.jsonl")
    arguments = [
        "export",
        str(finished),
        str(finished),
        "--format",
        "trl",
        "--out",
        str(out),
        "--min-score",
        "10",
    ]
    assert run_cli(cli, arguments) == 0
    assert len(read_lines(out)) == 5
    assert "left out: 4 attempts, seen twice" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
def test_graphs_of_evaluation_samples_never_get_into_training_data(
    finished: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Another sample under another name that shares one graph with the task "good".
    kept = make_sample(tmp_path / "eval_sample", graphs=1, salt="other")
    shared = finished.parent.parent / "good" / "graphs/model/sub_0"
    (kept / "graphs/model/sub_0/model.py").write_text((shared / "model.py").read_text())
    texts = {
        "txt": "eval_sample\n",
        "csv": "sample_path\r\neval_sample\r\n",
        "jsonl": '{"sample_dir": "eval_sample"}\n',
    }
    listing = tmp_path / f"eval.{kind}"
    listing.write_text(texts[kind])
    lines, _ = export(finished, "trl", "--eval-list", str(listing), "--samples-root", str(tmp_path))
    assert tasks(lines) == ["slow"]
    assert "1 attempts, their graphs are in an evaluation list" in capsys.readouterr().out


def test_bad_input_to_export(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(tmp_path / "none.jsonl", "trl")[1] == 2
    assert export(finished, "trl", "--eval-list", str(tmp_path / "none.txt"))[1] == 2
    lonely = tmp_path / "lonely.jsonl"
    lonely.write_bytes(finished.read_bytes())
    assert export(lonely, "trl")[1] == 2
    (tmp_path / "missing.txt").write_text("no/such/sample\n")
    assert export(finished, "trl", "--eval-list", str(tmp_path / "missing.txt"))[1] == 2
    said = capsys.readouterr().err
    assert "lonely_completions.jsonl: no such file" in said
    assert "Traceback" not in said
