"""Whole runs against a scripted model and a real, sandboxed local process."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from agent_bench import BETTER, Bench, observation
from agent_fixtures import (
    EVALUATE,
    MANIFEST,
    SUBMIT,
    make_script,
    pass_text,
    passagent,
    read_lines,
    write_file,
    write_pass,
)

from pass_agent.agent.budget import Limits
from pass_agent.agent.config import DEFAULT
from pass_agent.agent.runner import Runner
from pass_agent.cli import passagent as cli
from pass_agent.cli import run as run_cli
from pass_agent.errors import BadInput
from pass_agent.model.prices import Price
from pass_agent.model.script import read_script
from pass_agent.model.server import serving
from pass_agent.runtime.process import find_marked


def test_the_best_pass_set_is_restored_and_bound_to_its_score(bench: Bench) -> None:
    summary = bench.run([*BETTER, write_pass(speedup=2.0), EVALUATE, SUBMIT])
    (line,) = bench.lines()
    assert line["exit_reason"] == "agent"
    assert line["reward"] == pytest.approx(3.0)
    assert line["solved"] is True
    assert "speedup: 3.0" in (bench.folder / "traj/exp/tasks/task_0/pass_dir/one.py").read_text()
    assert (bench.folder / "traj/exp/pass_sets" / line["best_pass_set"] / "one.py").is_file()
    assert "+# speedup: 3.0" in line["output_patch"]
    assert "Not better than the best so far (3)" in observation(line, 5)
    assert "sub_0 1.5x -> 3x" in observation(line, 3)
    assert summary.pass_at == {1: 1.0}
    assert summary.tasks[0].best == pytest.approx(3.0)
    assert not (bench.samples[0] / "pass_dir" / "one.py").exists()


def test_the_trajectory_has_the_published_fields(bench: Bench) -> None:
    bench.run([write_pass(speedup=2.0), {**EVALUATE, "content": "now measure"}, SUBMIT])
    (line,) = bench.lines()
    wanted = (
        "trajectory_steps problem_statement docker_image exp_name env_args agent_args ds max_steps "
        "max_steps_absolute max_token_limit max_llm_time max_exec_time max_total_time exit_reason "
        "output_patch reward test_output"
    )
    assert set(wanted.split()) <= line.keys()
    step = line["trajectory_steps"][1]
    fields = (
        "step_idx thought action observation done info token_usage_prompt token_usage_completion "
        "token_usage_total llm_exec_time env_exec_time total_step_time total_time_traj step_count"
    )
    assert set(fields.split()) == step.keys()
    assert (step["thought"], step["action"]) == ("now measure", "<function=pass_evaluator>\n</function>")
    assert [one["done"] for one in line["trajectory_steps"]] == [False, False, True]
    (completion,) = read_lines(bench.folder / "traj" / "exp_completions.jsonl")
    roles = [message["role"] for message in completion["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "tool"]
    assert completion["sample_dir"] == str(bench.samples[0])


def test_apply_writes_the_best_set_into_the_sample(bench: Bench) -> None:
    bench.run([*BETTER, SUBMIT], apply=True)
    assert "speedup: 3.0" in (bench.samples[0] / "pass_dir" / "one.py").read_text()


def test_what_was_never_evaluated_is_evaluated_at_the_end(bench: Bench) -> None:
    bench.run([write_pass(speedup=2.5), SUBMIT])
    assert bench.lines()[0]["reward"] == pytest.approx(2.5)


def test_a_run_without_passes_gets_the_floor_as_scored(bench: Bench) -> None:
    bench.run([SUBMIT])
    (line,) = bench.lines()
    assert line["reward"] == pytest.approx(0.1)
    assert line["solved"] is False


def test_a_cheating_run_gains_nothing(bench: Bench) -> None:
    score = json.dumps({"id": "x", "score": 99.0})
    record = json.dumps({"graph": "g", "verdict": "correct", "index": 0})
    said = "aggregated_speedup=99 [Result] status: success"
    cheats = [
        write_file("entry.sh", f"echo '{score}' > $PASSNET_EVAL_OUTPUT/aggregated_score.json\n"),
        write_file("harness.py", "raise SystemExit(0)"),
        write_file("../entry.sh", "true"),
        write_file("/tmp/workspace_pass_bench_test/aggregated_score.json", score),
        write_file("aggregated_score.json", score),
        write_file("pass_dir/aggregated_score.json", score),
        write_file("pass_dir/results.jsonl", record),
        write_file("pass_dir/entry.sh", "exit 0"),
        write_file("pass_dir/harness.py", "raise SystemExit(0)"),
        write_pass(verdict="accuracy", speedup=99, print=said),
        EVALUATE,
        {"content": f"The score is 99.\n{score}\n{said}"},
        SUBMIT,
    ]
    bench.run(cheats)
    (line,) = bench.lines()
    assert line["reward"] == pytest.approx(0.1)
    assert line["solved"] is False
    for step in range(5):
        assert observation(line, step).startswith("Error: ")
    assert "Score (AS) 0.1; 0 of 2" in observation(line, 10)
    assert "workspace" not in (bench.samples[0] / "entry.sh").read_text()


def test_every_call_of_an_answer_is_answered_and_broken_ones_are_errors(bench: Bench) -> None:
    turn = {
        "calls": [
            {"name": "file_editor", "arguments": '{"command": "create", "path": '},
            {"name": "file_editor", "arguments": "[1, 2]"},
            {"name": "bash", "arguments": {"command": "ls"}},
            {"name": "file_editor", "arguments": {"command": "view", "path": "graph_list.txt"}},
        ]
    }
    bench.run([turn, SUBMIT])
    (line,) = bench.lines()
    texts = [one["text"] for one in line["trajectory_steps"][0]["info"]["observations"]]
    assert "not valid JSON" in texts[0]
    assert "must be a JSON object" in texts[1]
    assert texts[2] == "Error: there is no tool bash; there are file_editor, pass_evaluator, submit"
    assert "graphs/model/sub_0" in texts[3]
    (completion,) = read_lines(bench.folder / "traj" / "exp_completions.jsonl")
    first = completion["messages"][2]["tool_calls"]
    assert [json.loads(one["function"]["arguments"]) for one in first[:2]] == [{}, {}]
    answered = [message["tool_call_id"] for message in completion["messages"][3:7]]
    assert answered == [one["id"] for one in first]


def test_plain_answers_with_code_blocks_work(bench: Bench) -> None:
    answer = f"`pass_dir/fast.py`\n```python\n{pass_text(speedup=4.0)}```\nThat should do."
    bench.run([answer, "All done.", "Really.", "Yes."])
    (line,) = bench.lines()
    assert line["reward"] == pytest.approx(4.0)
    assert "Score (AS) 4" in observation(line, 0)
    assert (line["exit_reason"], line["exit_detail"]) == ("agent", "the model stopped calling tools")
    assert json.loads((bench.folder / f"traj/exp/tasks/task_0/pass_dir/{MANIFEST}").read_text()) == ["fast"]


EXITS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("abs_step_limit", [EVALUATE] * 9, {"limits": Limits(max_steps=2)}),
    (
        "token_limit",
        [{**EVALUATE, "usage": {"prompt": 900, "completion": 200}}] * 9,
        {"limits": Limits(max_token_limit=1000)},
    ),
    ("traj_time_limit", [write_pass(sleep=0.3), EVALUATE, EVALUATE], {"limits": Limits(max_total_time=0.2)}),
    ("llm_query_error", [EVALUATE], {}),
    ("format_error", ["hello"] * 5, {}),
    ("format_error", [{"content": "x", "finish_reason": "length"}] * 5, {}),
    ("format_error", [{"calls": [{"name": "submit", "arguments": "{"}]}] * 5, {}),
    ("budget", [{**EVALUATE, "usage": {"prompt": 600, "completion": 0}}] * 9, {"max_total_tokens": 1000}),
    (
        "budget",
        [{**EVALUATE, "usage": {"prompt": 600, "completion": 100}}] * 9,
        {"max_cost": 0.002, "price": Price(prompt=1.0, completion=10.0)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "turns", "more"), EXITS, ids=[f"{one[0]}-{at}" for at, one in enumerate(EXITS)]
)
def test_exit_reasons(bench: Bench, reason: str, turns: list[Any], more: dict[str, Any]) -> None:
    summary = bench.run(turns, **more)
    assert summary.exit_reasons == {reason: 1}
    assert bench.lines()[0]["exit_reason"] == reason


def test_a_budget_counts_what_an_earlier_run_spent(bench: Bench) -> None:
    turn = {**EVALUATE, "usage": {"prompt": 600, "completion": 0}}
    bench.run([turn] * 9, max_total_tokens=1000)
    assert len(bench.lines()[0]["trajectory_steps"]) == 2
    bench.run([turn] * 9, max_total_tokens=2000, resume=True, retry=("budget",))
    (line,) = bench.lines()
    assert len(line["trajectory_steps"]) == 4
    assert line["exit_reason"] == "budget"


def test_an_unknown_price_with_a_cost_limit_is_refused(bench: Bench) -> None:
    settings = bench.settings([]).model_copy(update={"llm_name": "openai/mystery", "max_cost": 1.0})
    with pytest.raises(BadInput, match="the price of openai/mystery is not known"):
        Runner(settings, bench.said.append).run()


def test_no_progress_stops_early(bench: Bench) -> None:
    turns = [turn for number in range(9) for turn in (write_pass(speedup=2.0, note=number), EVALUATE)]
    bench.run(turns, limits=Limits(patience=3))
    (line,) = bench.lines()
    assert (line["exit_reason"], line["early_stop"]) == ("agent", "no_progress")
    assert len(line["trajectory_steps"]) == 8  # one gain, then three without


def test_overhead_bound_stops_early(bench: Bench) -> None:
    marks = {"speedup": 10.0, "device": "cuda", "device_name": "NVIDIA H100"}
    bench.run([write_pass(**marks), EVALUATE, EVALUATE])
    assert bench.lines()[0]["early_stop"] == "overhead_bound"


INFRA: list[tuple[str, dict[str, Any], str]] = [
    ("exit", {"exit": 3}, "entry.sh ended with 3"),
    ("killed", {"die": 1}, "entry.sh ended with"),
    ("hang", {"sleep": 60, "children": 1}, "did not end within 1.5 s"),
    ("no graph", {"verdict": "infra"}, "no graph could be scored"),
]


@pytest.mark.parametrize(("name", "marks", "why"), INFRA, ids=[one[0] for one in INFRA])
def test_infra_failures_give_no_reward_and_say_so(
    bench: Bench, name: str, marks: dict[str, Any], why: str
) -> None:
    summary = bench.run([write_pass(**marks), EVALUATE, SUBMIT], limits=Limits(max_exec_time=1.5))
    (line,) = bench.lines()
    assert line["reward"] is None
    assert why in line["reward_note"]
    assert "failed on our side" in observation(line, 1)
    assert summary.without_reward == 1
    assert find_marked("box-") == []


def test_a_dead_harness_ends_an_attempt_and_can_be_taken_up_once_it_is_mended(bench: Bench) -> None:
    turns = [write_pass(exit=3), EVALUATE, EVALUATE, EVALUATE, write_pass(speedup=2.0), EVALUATE, SUBMIT]
    bench.run(turns)
    (line,) = bench.lines()
    assert (line["exit_reason"], line["reward"]) == ("env_exception", None)
    assert "3 evaluations in a row failed on our side: entry.sh ended with 3" in line["exit_detail"]
    assert len(line["trajectory_steps"]) == 4
    bench.run(turns, resume=True, retry=("env_exception",))
    (line,) = bench.lines()
    assert (line["exit_reason"], line["reward"]) == ("agent", pytest.approx(2.0))
    assert len(line["trajectory_steps"]) == 7


def test_graphs_that_the_harness_lost_are_evaluated_once_more(bench: Bench) -> None:
    flaky = {"environment": {"COUNT": str(bench.folder / "count")}, "sandbox": "off"}
    bench.run([write_pass(speedup=2.0, flaky=1), EVALUATE, SUBMIT], **flaky)
    (line,) = bench.lines()
    assert "2 of 2 graphs correct" in observation(line, 1)
    assert (line["reward"], line["reward_note"]) == (pytest.approx(2.0), "")


def test_graphs_that_stay_lost_are_left_out_and_named(bench: Bench) -> None:
    bench.run([write_pass(speedup=2.0, verdict="infra", only="sub_0"), EVALUATE, SUBMIT])
    (line,) = bench.lines()
    assert line["reward"] == pytest.approx(0.1)  # the other graph is a pass_miss
    assert line["reward_note"] == "1 graphs were left out of the score: the harness failed on them"
    assert line["solved"] is False


def test_a_machine_without_speeds_is_no_failure_of_the_harness(bench: Bench) -> None:
    """Triton on a laptop: verified, told so, kept as the best set, and without a made-up reward."""
    wrong = write_pass(verdict="unsupported_on_cpu")
    verified = [write_pass(interpreted=1), EVALUATE]
    bench.run([wrong, EVALUATE, *verified, write_file(f"pass_dir/{MANIFEST}", "[]"), EVALUATE, SUBMIT])
    (line,) = bench.lines()
    assert observation(line, 1).startswith("No score on this machine; 0 of 2 graphs correct")
    assert "This kernel needs a GPU" in observation(line, 1)
    assert observation(line, 3).startswith("No score on this machine; 2 of 2 graphs correct")
    assert "Triton is interpreted here" in observation(line, 3)
    assert "failed on our side" not in observation(line, 3)
    assert (line["reward"], line["solved"]) == (None, True)
    assert "interpreted on the CPU: there is no speed" in line["reward_note"]
    assert "interpreted: 1" in (bench.folder / "traj/exp/tasks/task_0/pass_dir/one.py").read_text()


def test_a_cut_off_call_is_told_so(bench: Bench) -> None:
    cut = {"calls": [{"name": "file_editor", "arguments": '{"command": "cre'}], "finish_reason": "length"}
    bench.run([cut, SUBMIT])
    assert observation(bench.lines()[0], 0).startswith("Error: The answer was cut off at the output limit.")


def test_what_breaks_one_attempt_costs_no_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path, samples=3)
    bench.run({"default": [*BETTER, SUBMIT], "tasks": {"task_1": [write_pass(speedup=7.0), SUBMIT]}})
    (lost,) = [line["best_pass_set"] for line in bench.lines() if line["ds"]["instance_id"] == "task_1"]
    shutil.rmtree(bench.folder / "traj/exp/pass_sets" / lost)
    (bench.folder / "traj/exp.jsonl").unlink()
    ran = passagent(
        "run", "--dataset", bench.dataset, "--config", bench.config, "--k", "0", "--no-few-shot", "--resume",
        "--llm-name", f"scripted:{bench.folder / 'script.json'}", "--runtime", "local",
        "--traj-dir", bench.folder / "traj", "--exp-name", "exp",
    )  # fmt: skip
    assert ran.returncode == 3
    assert "1 attempts left no trajectory; the first: task_1 attempt 0: " in ran.stderr
    assert f"no pass set {lost}" in ran.stderr
    assert sorted(line["ds"]["instance_id"] for line in bench.lines()) == ["task_0", "task_2"]


def test_one_infra_failure_does_not_cost_what_was_reached(bench: Bench) -> None:
    bench.run([write_pass(speedup=2.0), EVALUATE, write_pass(exit=3), EVALUATE, SUBMIT])
    assert bench.lines()[0]["reward"] == pytest.approx(2.0)


def test_a_pass_set_that_cannot_be_loaded_counts_the_floor(bench: Bench) -> None:
    bench.run([write_file(f"pass_dir/{MANIFEST}", '["missing"]'), EVALUATE, SUBMIT])
    (line,) = bench.lines()
    assert line["reward"] == pytest.approx(0.1)
    assert "could not be loaded and counts 0.1: pass_dir/missing.py" in observation(line, 1)


def test_evaluations_are_shared_between_attempts_and_counted_once(bench: Bench) -> None:
    summary = bench.run([write_pass(speedup=2.0), EVALUATE, EVALUATE, SUBMIT], attempts=3, max_workers=3)
    assert len(list((bench.folder / "traj/exp/evaluations").glob("*.json"))) == 1
    assert summary.tasks[0].rewards == (2.0, 2.0, 2.0)
    assert summary.pass_at == {1: 1.0, 2: 1.0, 3: 1.0}
    for line in bench.lines():
        assert "(Evaluated before" not in observation(line, 1)
        assert "(Evaluated before" in observation(line, 2)


def test_show_in_the_terminal_and_as_html(bench: Bench) -> None:
    bench.run([*BETTER, SUBMIT])
    listing = passagent("show", bench.folder / "traj/exp")
    assert "task_0" in listing.stdout
    one = passagent("show", bench.journal().parent)
    assert "Score (AS) 3" in one.stdout
    page = bench.folder / "page.html"
    assert passagent("show", bench.journal().parent, "--html", page).returncode == 0
    text = page.read_text()
    assert text.count('<section class="step"') == 5
    assert text.count("<circle") == 2
    assert "&lt;function=pass_evaluator&gt;" in text
    assert "src=" not in text and "http" not in text


def test_tasks_are_chosen_by_start_and_k(tmp_path: Path) -> None:
    bench = Bench(tmp_path, samples=4)
    bench.run([SUBMIT], start_idx=1, k=2)
    assert sorted(line["ds"]["instance_id"] for line in bench.lines()) == ["task_1", "task_2"]


def test_a_served_script_gives_the_same_run_as_a_local_one(bench: Bench) -> None:
    turns = [{**BETTER[0], "faults": [{"status": 429, "retry_after": 0}]}, *BETTER[1:], SUBMIT]
    settings = bench.settings(turns)
    with serving(read_script(bench.folder / "script.json")) as server:
        served = {"llm_name": "openai/test", "llm_base_url": server.url, "exp_name": "served"}
        Runner(settings.model_copy(update=served), bench.said.append).run()
        assert set(server.tries.values()) == {1, 2}
    bench.run(turns)
    (one,), (other,) = read_lines(bench.folder / "traj/served.jsonl"), bench.lines()
    assert one["reward"] == other["reward"] == pytest.approx(3.0)
    assert [step["action"] for step in one["trajectory_steps"]] == [
        step["action"] for step in other["trajectory_steps"]
    ]
    assert one["trajectory_steps"][0]["info"]["tries"] == 2


def test_the_key_is_nowhere_in_what_a_run_leaves(bench: Bench) -> None:
    bench.run([*BETTER, SUBMIT], api_key="sk-very-secret")
    for path in (bench.folder / "traj").rglob("*"):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes()


BAD: list[tuple[list[str], str]] = [
    (["--dataset", "missing.jsonl"], "missing.jsonl: no such file"),
    (["--config", "missing.yaml"], "missing.yaml: no such file"),
    (["--llm-name", "scripted:missing.json"], "missing.json: no such file"),
    (["--start-idx", "5"], "behind the last task"),
    (["--price", "cheap"], "--price is PROMPT:COMPLETION"),
    (["--eval-env", "oops"], "--eval-env is NAME=VALUE"),
    (["--runtime", "docker", "--docker-image", "none:none"], "Docker"),
    (["--attempts", "0"], "Invalid value"),
]


@pytest.mark.parametrize(("arguments", "why"), BAD, ids=[one[1] for one in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    bench: Bench, arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = make_script(bench.folder / "script.json", [SUBMIT])
    given = ["run", "--dataset", str(bench.dataset), "--llm-name", f"scripted:{script}", "--runtime", "local"]
    code = run_cli(cli, [*given, "--traj-dir", str(bench.folder / "traj"), *arguments])
    said = capsys.readouterr().err
    assert code == 2
    assert why in said
    assert "Traceback" not in said
    assert not (bench.folder / "traj").exists() or not list((bench.folder / "traj").rglob("journal.jsonl"))


def test_default_configuration_is_valid() -> None:
    assert "{problem_statement}" in DEFAULT.read_text()
    assert os.access(DEFAULT, os.R_OK)
