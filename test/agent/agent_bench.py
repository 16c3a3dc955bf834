"""Runs attempts of a scripted model in this process, in a folder of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_fixtures import EVALUATE, make_dataset, make_sample, make_script, read_lines, write_pass

from pass_agent.agent.runner import Runner
from pass_agent.agent.settings import RunSettings
from pass_agent.agent.summary import Summary

CONFIG = """
system_prompt: You write passes.
instance_prompt: "{problem_statement}"
command_files: [tools/file_editor.py, tools/pass_evaluator.py, tools/submit.py]
other_args: {max_retries: 1, timeout: 20, wait: 0.01}
"""


class Bench:
    """A folder with samples, a dataset and a configuration; runs in this process."""

    def __init__(self, folder: Path, samples: int = 1):
        self.folder = folder
        self.samples = [make_sample(folder / f"task_{number}") for number in range(samples)]
        self.dataset = make_dataset(folder / "data.jsonl", self.samples)
        self.config = folder / "config.yaml"
        self.config.write_text(CONFIG)
        self.said: list[str] = []

    def settings(self, turns: Any, **more: Any) -> RunSettings:
        script = make_script(self.folder / "script.json", turns)
        chosen = {
            "dataset": self.dataset,
            "config": self.config,
            "traj_dir": self.folder / "traj",
            "exp_name": "exp",
            "llm_name": f"scripted:{script}",
            "k": 0,
            "runtime": "local",
            "few_shot": False,
            **more,
        }
        return RunSettings(**chosen)

    def run(self, turns: Any, **more: Any) -> Summary:
        return Runner(self.settings(turns, **more), self.said.append).run()

    def lines(self) -> list[dict[str, Any]]:
        return read_lines(self.folder / "traj" / "exp.jsonl")

    def journal(self, task: int = 0, attempt: int = 0) -> Path:
        return self.folder / f"traj/exp/tasks/task_{task}/attempt_{attempt}/journal.jsonl"


def observation(line: dict[str, Any], step: int) -> str:
    return str(line["trajectory_steps"][step]["observation"])


BETTER = [write_pass(speedup=1.5), EVALUATE, write_pass(speedup=3.0), EVALUATE]
