"""Builds samples, datasets and scripts for tests of the agent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parent / "fake_harness.py"
MANIFEST = "sorted_output_pass_rule_names.json"
MODEL = """import torch


class GraphModule(torch.nn.Module):
    def forward(self, in_0, w_0):
        tmp_0 = torch.nn.functional.gelu(in_0)
        tmp_1 = tmp_0 * w_0
        tmp_0 = None
        return (tmp_1,)
"""
META = """class Program_weight_tensor_meta_in_0:
    name = "in_0"
    shape = [4, 256]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0


class Program_weight_tensor_meta_w_0:
    name = "w_0"
    shape = [256]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
"""


def make_sample(folder: Path, graphs: int = 2, salt: str = "") -> Path:
    """A sample directory whose entry.sh runs the fake harness."""
    names = [f"graphs/model/sub_{number}" for number in range(graphs)]
    for number, name in enumerate(names):
        graph = folder / name
        graph.mkdir(parents=True)
        (graph / "model.py").write_text(MODEL + f"\n\n# {salt or folder.name} {number}\n")
        (graph / "weight_meta.py").write_text(META)
        (graph / "graph_hash.txt").write_text(f"hash-{salt or folder.name}-{number}")
    (folder / "graph_list.txt").write_text("\n".join(names) + "\n")
    (folder / "harness.py").write_text(HARNESS.read_text())
    entry = f'exec {sys.executable} -S "$(dirname "$0")/harness.py" "$(dirname "$0")"\n'
    (folder / "entry.sh").write_text(entry)
    (folder / "pass_dir").mkdir()
    (folder / "pass_dir" / ".ignore").write_text("")
    return folder


def make_dataset(path: Path, samples: list[Path]) -> Path:
    """A dataset file with one task a sample."""
    lines = [
        json.dumps(
            {
                "swe_type": "passnet",
                "sample_dir": str(sample),
                "repo_name": "passnet",
                "docker_image": "passnet:latest",
                "instance_id": sample.name,
            }
        )
        for sample in samples
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A turn with one tool call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def write_file(path: str, text: str) -> dict[str, Any]:
    return call("file_editor", command="create", path=path, file_text=text)


def pass_text(**marks: Any) -> str:
    """A pass of the fake harness."""
    return (
        "".join(f"# {name}: {value}\n" for name, value in marks.items()) + "def pattern(x):\n    return x\n"
    )


def write_pass(**marks: Any) -> dict[str, Any]:
    """A turn that writes the pass `one` and its manifest in two calls."""
    text = pass_text(**marks)
    files = {"pass_dir/one.py": text, f"pass_dir/{MANIFEST}": '["one"]'}
    return {
        "calls": [
            {"name": "file_editor", "arguments": {"command": "create", "path": path, "file_text": content}}
            for path, content in files.items()
        ]
    }


EVALUATE = call("pass_evaluator")
SUBMIT = call("submit")


def make_script(path: Path, turns: Any) -> Path:
    path.write_text(json.dumps(turns))
    return path


def passagent(
    *arguments: str | Path, cwd: Path | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pass_agent.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=600,
        **more,
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
