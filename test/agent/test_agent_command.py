"""The published command line: flags, environment variables, defaults, and the script in examples/."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from agent_fixtures import EVALUATE, SUBMIT, make_dataset, make_sample, make_script, read_lines, write_pass

from pass_agent.agent.command import read_settings
from pass_agent.agent.config import read_config
from pass_agent.agent.settings import RunSettings
from pass_agent.cli import run as run_cli
from pass_agent.errors import BadInput, ExitReason
from pass_agent.model.quirks import choose_key
from pass_agent.model.script import read_script
from pass_agent.model.server import serving

VARIABLES = ("LLM_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MAX_WORKERS")


@pytest.fixture
def demo(repository: Path, monkeypatch: pytest.MonkeyPatch) -> click.Command:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = repository / "examples" / "run_pass_agent_demo.py"
    spec = importlib.util.spec_from_file_location("run_pass_agent_demo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    command: click.Command = module.demo
    return command


def settings(command: click.Command, *arguments: str) -> RunSettings:
    with command.make_context("demo", list(arguments)) as context:
        options: dict[str, Any] = dict(context.params)
    options.pop("serve_script")
    return read_settings(options, resume=True)


def test_the_published_flags_have_their_published_defaults(demo: click.Command) -> None:
    chosen = settings(demo)
    assert chosen.limits.max_steps == 100
    assert chosen.temperature == 1.0
    assert chosen.dataset == Path("datasets/passbench_demo_dataset.jsonl")
    assert chosen.traj_dir == Path("trajectories/pass_agent")
    assert chosen.exp_name == "pass_agent_full_trajectory"
    assert (chosen.start_idx, chosen.max_workers, chosen.llm_base_url, chosen.api_key) == (0, 1, "", "")


def test_every_published_flag_is_taken(demo: click.Command, tmp_path: Path) -> None:
    given = {
        "--llm-name": "openai/glm-4.7",
        "--llm-base-url": "http://x/v1",
        "--openai-api-key": "K",
        "--anthropic-api-key": "A",
        "--dataset": "d.jsonl",
        "--max-steps": "50",
        "--k": "10",
        "--config": "c.yaml",
        "--traj-dir": str(tmp_path),
        "--exp-name": "e",
        "--temperature": "0.5",
        "--max-workers": "4",
        "--start-idx": "3",
    }
    chosen = settings(demo, *[part for pair in given.items() for part in pair])
    assert (chosen.llm_name, chosen.llm_base_url) == ("openai/glm-4.7", "http://x/v1")
    assert (chosen.api_key, chosen.anthropic_api_key) == ("K", "A")
    assert (chosen.dataset, chosen.config) == (Path("d.jsonl"), Path("c.yaml"))
    assert (chosen.limits.max_steps, chosen.k, chosen.start_idx, chosen.max_workers) == (50, 10, 3, 4)
    assert (chosen.traj_dir, chosen.exp_name, chosen.temperature) == (tmp_path, "e", 0.5)


def test_environment_variables_stand_in_for_flags(
    demo: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(VARIABLES, ("http://env/v1", "key-o", "key-a", "6"), strict=True):
        monkeypatch.setenv(name, value)
    chosen = settings(demo)
    assert (chosen.llm_base_url, chosen.api_key, chosen.anthropic_api_key) == (
        "http://env/v1",
        "key-o",
        "key-a",
    )
    assert chosen.max_workers == 6
    assert settings(demo, "--max-workers", "2").max_workers == 2


def test_the_script_runs_with_variables_alone(repository: Path, tmp_path: Path) -> None:
    """From another folder, with a dataset of its own, over HTTP; again, it finds everything done."""
    make_dataset(
        tmp_path / "data.jsonl", [make_sample(tmp_path / name, graphs=1) for name in ("a", "b", "c")]
    )
    script = make_script(tmp_path / "script.json", [write_pass(speedup=2.0), EVALUATE, SUBMIT])
    command = [sys.executable, repository / "examples/run_pass_agent_demo.py", "--llm-name", "openai/glm-4.7"]
    command += ["--dataset", "data.jsonl", "--k", "2", "--start-idx", "1", "--runtime", "local"]
    with serving(read_script(script)) as server:
        server.keep_bodies = True
        variables = {"LLM_BASE_URL": server.url, "OPENAI_API_KEY": "key-o", "MAX_WORKERS": "2"}
        for _ in range(2):
            ran = subprocess.run(
                [*map(str, command)],
                cwd=tmp_path,
                env={**os.environ, **variables},
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert ran.returncode == 0, ran.stderr
        assert server.keys == {"Bearer key-o"}
        assert {body["model"] for body in server.bodies} == {"glm-4.7"}
        assert len(server.bodies) == 6
    lines = read_lines(tmp_path / "trajectories/pass_agent/pass_agent_full_trajectory.jsonl")
    assert sorted(line["ds"]["instance_id"] for line in lines) == ["b", "c"]


def test_exit_reasons_are_the_published_ones() -> None:
    published = (
        "agent token_limit abs_step_limit traj_time_limit llm_query_error env_exception format_error budget"
    )
    assert [str(reason) for reason in ExitReason] == published.split()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("openai/glm-4.7", "o"),
        ("anthropic/claude-sonnet-4-5", "a"),
        ("claude-sonnet-4-5", "a"),
        ("openai/claude-sonnet-4-5", "o"),
        ("openrouter/anthropic/claude-sonnet-4.5", "o"),
    ],
)
def test_a_key_goes_only_where_the_models_name_asks_for_it(name: str, key: str) -> None:
    assert choose_key(name, "o", "a") == key
    assert choose_key(name, "", "a") == ("a" if key == "a" else "")


def test_a_missing_key_is_said_before_anything_starts(
    demo: click.Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = make_dataset(tmp_path / "data.jsonl", [make_sample(tmp_path / "a")])
    arguments = [
        "--llm-name",
        "openai/gpt-5",
        "--dataset",
        str(dataset),
        "--traj-dir",
        str(tmp_path / "traj"),
    ]
    assert run_cli(demo, arguments) == 2
    assert "no key for openai/gpt-5" in capsys.readouterr().err
    assert not (tmp_path / "traj").exists()


def test_a_published_configuration_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        'system_prompt: "s"\ninstance_prompt: "a {problem_statement} b"\n'
        'command_files: ["./tools/file_editor.py", "./tools/pass_evaluator.py"]\n'
        'llm_name: "openai/x"\ndemo_file: ""\nother_args: {max_retries: 3, timeout: 120}\n'
    )
    config = read_config(path)
    assert (config.llm_name, config.other_args) == ("openai/x", {"max_retries": 3, "timeout": 120})
    path.write_text("system_prompt: s\ninstance_prompt: no place for it\n")
    with pytest.raises(BadInput, match="instance_prompt must hold"):
        read_config(path)
    path.write_text("system_prompt: s\ninstance_prompt: '{problem_statement}'\ncolour: red\n")
    with pytest.raises(BadInput, match="colour"):
        read_config(path)
