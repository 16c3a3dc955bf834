"""kill -9 of the runner at random moments, then --resume; and many tasks at once."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from agent_fixtures import EVALUATE, SUBMIT, make_dataset, make_sample, make_script, read_lines, write_pass

from pass_agent.model.script import read_script
from pass_agent.model.server import serving
from pass_agent.runtime.process import find_marked

CONFIG = """
system_prompt: You write passes.
instance_prompt: "{problem_statement}"
command_files: [tools/file_editor.py, tools/pass_evaluator.py, tools/submit.py]
other_args: {max_retries: 3, timeout: 60, wait: 0.01}
"""


def command(folder: Path, url: str, *more: object) -> list[str]:
    arguments = [
        "run", "--runtime", "local", "--dataset", folder / "data.jsonl", "--config", folder / "config.yaml",
        "--traj-dir", folder / "traj", "--exp-name", "exp", "--k", 0, "--llm-name", "openai/test",
        "--llm-base-url", url, "--no-few-shot", "--resume", *more,
    ]  # fmt: skip
    return [sys.executable, "-m", "pass_agent.cli", *map(str, arguments)]


def lay_out(folder: Path, tasks: int, turns: list[Any]) -> Path:
    make_dataset(folder / "data.jsonl", [make_sample(folder / f"task_{at}", graphs=1) for at in range(tasks)])
    (folder / "config.yaml").write_text(CONFIG)
    return make_script(folder / "script.json", turns)


def actions(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in read_lines(folder / "traj" / "exp.jsonl"):
        assert line["ds"]["instance_id"] not in found
        found[line["ds"]["instance_id"]] = [step["action"] for step in line["trajectory_steps"]]
    return found


def survivors(folder: Path) -> list[int]:
    return [pid for box in (folder / "traj/exp/boxes").glob("box-*") for pid in find_marked(box.name)]


def run_killed(tmp_path: Path, kills: int, seed: int, evaluations: int) -> None:
    rng = random.Random(seed)
    marks = {"children": 1, "sleep": 0.15}
    turns = [turn for at in range(evaluations) for turn in (write_pass(speedup=1 + at, **marks), EVALUATE)]
    script = lay_out(tmp_path, 2, [{**turn, "delay": 0.05} for turn in turns] + [SUBMIT])
    killed = 0
    with serving(read_script(script)) as server:
        while killed < kills:
            runner = subprocess.Popen(
                command(tmp_path, server.url, "--max-workers", 2), stdout=subprocess.PIPE
            )
            target = journal_bytes(tmp_path) + rng.randint(200, 3000)
            deadline = time.monotonic() + 120
            while runner.poll() is None and journal_bytes(tmp_path) < target and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(rng.random() * 0.3)
            if runner.poll() is not None:
                break
            runner.send_signal(signal.SIGKILL)
            runner.communicate()
            killed += 1
            wait_until_dead(tmp_path)
        assert killed == kills
        last = subprocess.run(command(tmp_path, server.url), capture_output=True, text=True, timeout=300)
    assert last.returncode == 0, last.stderr
    wanted = ["file_editor", "pass_evaluator"] * evaluations + ["submit"]
    for task, steps in actions(tmp_path).items():
        assert [step.split(">")[0].removeprefix("<function=") for step in steps] == wanted, task
    assert len(actions(tmp_path)) == 2
    assert all(
        line["reward"] == pytest.approx(float(evaluations))
        for line in read_lines(tmp_path / "traj/exp.jsonl")
    )
    assert survivors(tmp_path) == []
    assert list((tmp_path / "traj/exp/boxes").glob("box-*")) == []
    # An answer that was on its way when the runner died is asked for again; no other turn is.
    extra = sum(server.tries.values()) - 2 * len(wanted)
    assert 0 <= extra <= 2 * killed
    print(f"{killed} kills, {extra} answers asked for again")


def journal_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("traj/exp/tasks/*/attempt_*/journal.jsonl"))


def wait_until_dead(folder: Path) -> None:
    """The kernel ends the box with its runner; it takes a moment, not a cleaner."""
    deadline = time.monotonic() + 10
    while survivors(folder):
        assert time.monotonic() < deadline, "a process outlived its killed runner"
        time.sleep(0.02)


@pytest.mark.serial
def test_a_killed_runner_resumes_without_losing_or_doubling_a_step(tmp_path: Path) -> None:
    run_killed(tmp_path, kills=2, seed=1, evaluations=4)


@pytest.mark.serial
@pytest.mark.full
def test_twenty_kills(tmp_path: Path) -> None:
    run_killed(tmp_path, kills=20, seed=7, evaluations=15)


@pytest.mark.serial
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_runner_that_is_told_to_stop_leaves_nothing_and_can_go_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = lay_out(tmp_path, 1, [write_pass(speedup=2.0, sleep=3, children=1), EVALUATE, SUBMIT])
    arguments = command(tmp_path, "", "--llm-name", f"scripted:{script}")
    runner = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where we run under nohup
    )
    deadline = time.monotonic() + 60
    while not survivors(tmp_path):
        assert time.monotonic() < deadline, "no evaluation began"
        time.sleep(0.02)
    runner.send_signal(number)
    said = runner.communicate(timeout=30)[0]
    assert runner.returncode == 130
    assert "interrupted; go on with --resume" in said
    assert survivors(tmp_path) == []
    last = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert last.returncode == 0, last.stderr
    assert [line["reward"] for line in read_lines(tmp_path / "traj/exp.jsonl")] == [pytest.approx(2.0)]


def run_many(tmp_path: Path, tasks: int, workers: int) -> None:
    turns = [write_pass(speedup=2.0), EVALUATE, write_pass(speedup=3.0), EVALUATE, SUBMIT]
    script = lay_out(tmp_path, tasks, [{**turn, "content": "x" * 20_000} for turn in turns])
    with serving(read_script(script)) as server:
        ran = subprocess.run(
            command(tmp_path, server.url, "--max-workers", workers),
            capture_output=True,
            text=True,
            timeout=900,
        )
    assert ran.returncode == 0, ran.stderr
    for name in ("exp.jsonl", "exp_completions.jsonl"):
        lines = [json.loads(line) for line in (tmp_path / "traj" / name).read_text().splitlines()]
        assert len(lines) == tasks
    assert {line["reward"] for line in read_lines(tmp_path / "traj/exp.jsonl")} == {3.0}
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{tasks} tasks, {workers} workers: peak {peak:.0f} MiB")
    assert peak < 2048


def test_many_tasks_in_parallel_lose_nothing(tmp_path: Path) -> None:
    run_many(tmp_path, tasks=8, workers=8)


@pytest.mark.full
def test_fifty_tasks_with_eight_workers(tmp_path: Path) -> None:
    run_many(tmp_path, tasks=50, workers=8)


@pytest.mark.serial
def test_evaluations_take_turns_across_processes(tmp_path: Path) -> None:
    """Two runners on one device: their evaluations never overlap."""
    trace = tmp_path / "trace"
    folders = [tmp_path / "one", tmp_path / "two"]
    processes = []
    for folder in folders:
        folder.mkdir()
        script = lay_out(folder, 2, [write_pass(speedup=2.0), EVALUATE, SUBMIT])
        for sample in folder.glob("task_*"):
            entry = sample / "entry.sh"
            wrapped = entry.read_text().replace("exec ", "")
            entry.write_text(
                f'echo begin >> "$TRACE"\n{wrapped}code=$?\nsleep 0.1\necho end >> "$TRACE"\nexit $code\n'
            )
        more = [
            "--llm-name",
            f"scripted:{script}",
            "--max-workers",
            2,
            "--sandbox",
            "off",
            "--eval-env",
            f"TRACE={trace}",
        ]
        processes.append(subprocess.Popen(command(folder, "", *more), stdout=subprocess.PIPE))
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    assert trace.read_text().split() == ["begin", "end"] * 4
