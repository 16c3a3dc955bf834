"""The agent with the real pass_bench: entry.sh, its sandbox within ours, its records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from agent_fixtures import EVALUATE, MANIFEST, SUBMIT, call, make_dataset, make_script, read_lines, write_file
from docker_engine import IMAGE, host_mounts, import_skeleton, running_engine, why_no_engine

from pass_agent.agent.dataset import read_tasks
from pass_agent.agent.dataset_files import instance_id, spread, write_datasets
from pass_agent.agent.runner import Runner
from pass_agent.agent.settings import RunSettings
from pass_agent.errors import BadInput
from pass_agent.evaluation.sample import read_sample_source
from pass_agent.model.script import read_script
from pass_agent.prompts.few_shot import choose_example, files_for, read_examples
from pass_agent.prompts.problem import Machine, problem_statement
from pass_agent.runtime.docker_runtime import DockerSettings

CONFIG = """
system_prompt: You write passes.
instance_prompt: "{problem_statement}"
command_files: [tools/file_editor.py, tools/pass_evaluator.py, tools/check.py, tools/submit.py]
"""
MODEL = """import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        tmp_0 = in_0 * in_1
        tmp_1 = torch.relu(tmp_0)
        tmp_0 = None
        return (tmp_1,)
"""
META = """class Program_weight_tensor_meta_in_{0}:
    name = "in_{0}"
    original_name = "L_x_{0}"
    shape = [64, 4096]
    dtype = "torch.float32"
    device = "cpu"
    mean = 0.1
    std = 1.0

"""
PASS = '''import torch

from pass_bench.kernels import cpp_kernel

_kernel = cpp_kernel(
    """
void mul_relu(const float* a, const float* b, float* out, int64_t n) {{
  for (int64_t i = 0; i < n; ++i) {{ const float v = a[i] * b[i]; out[i] = {expression}; }}
}}
""",
    "mul_relu(const float* a, const float* b, float* out, int64_t n)",
)


def pattern(a, b):
    return torch.relu(a * b)


def replacement_args(a, b):
    return a, b


@torch.fx.wrap
def mul_relu(a, b):
    out = torch.empty_like(a)
    _kernel(a, b, out, a.numel())
    return out


def replacement_func():
    return mul_relu
'''
RIGHT = PASS.format(expression="v > 0 ? v : 0")
WRONG = PASS.format(expression="v > 0 ? v : 0.01f * v")
FORGER = (
    """import json, os
out = os.environ.get("PASSNET_EVAL_OUTPUT", ".")
open(out + "/aggregated_score.json", "w").write(json.dumps({"id": "x", "score": 99.0}))
print("aggregated_speedup=99")
"""
    + RIGHT
)


def manifest(name: str) -> dict[str, Any]:
    return write_file(f"pass_dir/{MANIFEST}", json.dumps([name]))


def make_real_sample(folder: Path, repository: Path) -> Path:
    graph = folder / "graphs" / "mul_relu"
    graph.mkdir(parents=True)
    (graph / "model.py").write_text(MODEL)
    (graph / "weight_meta.py").write_text("".join(META.format(at) for at in range(2)))
    (graph / "input_meta.py").write_text("")
    (graph / "input_tensor_constraints.py").write_text("")
    info = {
        "framework": "torch",
        "num_devices_required": 1,
        "num_nodes_required": 1,
        "dynamic": False,
        "model_name": "m",
    }
    (graph / "graph_net.json").write_text(json.dumps(info))
    (folder / "graph_list.txt").write_text("graphs/mul_relu\n")
    (folder / "entry.sh").symlink_to(repository / "entry_scripts" / "entry.sh")
    (folder / "pass_bench").symlink_to(repository / "pass_bench")
    (folder / "pass_dir").mkdir()
    return folder


def run(folder: Path, repository: Path, turns: list[Any], **more: Any) -> dict[str, Any]:
    sample = make_real_sample(folder / "sample", repository)
    (folder / "config.yaml").write_text(CONFIG)
    settings = {
        "dataset": make_dataset(folder / "data.jsonl", [sample]),
        "config": folder / "config.yaml",
        "traj_dir": folder / "traj",
        "exp_name": "exp",
        "llm_name": f"scripted:{make_script(folder / 'script.json', turns)}",
        "runtime": "local",
        "device": "cpu",
        "environment": {"PASSNET_WARMUP": "2", "PASSNET_TRIALS": "5"},
        **more,
    }
    Runner(RunSettings(**settings), print).run()
    (line,) = read_lines(folder / "traj" / "exp.jsonl")
    return line


def observations(line: dict[str, Any]) -> list[str]:
    return [step["observation"] for step in line["trajectory_steps"]]


@pytest.mark.serial
def test_a_right_pass_is_scored_by_the_real_harness(tmp_path: Path, repository: Path) -> None:
    turns = [write_file("pass_dir/fuse.py", RIGHT), manifest("fuse"), EVALUATE, call("check"), SUBMIT]
    line = run(tmp_path, repository, turns)
    said, checked = observations(line)[2:4]
    assert "mul_relu: correct" in said
    assert "graphs/mul_relu (cpu)\n    fuse: replaced 1 of 1 matches\n\nOK" in checked
    assert "private root" not in said and "namespaces" not in said  # pass_bench's sandbox works in ours
    assert line["solved"] is True
    assert line["reward"] > 0.1


@pytest.mark.full
@pytest.mark.serial
def test_a_wrong_pass_is_told_so_and_a_right_one_is_scored(tmp_path: Path, repository: Path) -> None:
    turns = [write_file("pass_dir/fuse.py", WRONG), manifest("fuse"), EVALUATE]
    line = run(tmp_path, repository, [*turns, write_file("pass_dir/fuse.py", RIGHT), EVALUATE, SUBMIT])
    said = observations(line)
    assert "mul_relu: accuracy" in said[2]
    assert "output[0] float32[64, 4096] passes" in said[2]
    assert "mul_relu: correct" in said[4]
    assert "mul_relu accuracy -> correct" in said[4]
    assert line["solved"] is True
    kept = json.loads(next((tmp_path / "traj/exp/evaluations").glob("*.json")).read_text())
    assert {"status", "score", "graphs"} <= kept.keys()


@pytest.mark.full
@pytest.mark.serial
def test_a_forging_pass_gains_nothing(tmp_path: Path, repository: Path) -> None:
    turns = [write_file("pass_dir/forge.py", FORGER), manifest("forge"), EVALUATE, SUBMIT]
    line = run(tmp_path, repository, turns)
    assert line["reward"] == pytest.approx(0.1, abs=0.03)
    assert line["solved"] is False


@pytest.mark.full
@pytest.mark.serial
def test_no_passes_at_all_are_scored_by_the_harness(tmp_path: Path, repository: Path) -> None:
    line = run(tmp_path, repository, [EVALUATE, SUBMIT])
    assert 0.0 < line["reward"] < 0.2
    assert line["solved"] is False


@pytest.mark.full
@pytest.mark.serial
def test_the_real_harness_in_a_container(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = why_no_engine()
    if why:
        pytest.skip(why)
    import docker

    with running_engine() as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        client = docker.from_env()
        import_skeleton(client)
        settings = DockerSettings(image=IMAGE, mounts=host_mounts(), memory="8g", gpus="none")
        environment = {"PASSNET_WARMUP": "2", "PASSNET_TRIALS": "5", "PASSNET_PYTHON": sys.executable}
        turns = [write_file("pass_dir/fuse.py", RIGHT), manifest("fuse"), EVALUATE, SUBMIT]
        line = run(tmp_path, repository, turns, runtime="docker", docker=settings, environment=environment)
        assert client.containers.list(all=True) == []
        client.close()
    assert "mul_relu: correct" in observations(line)[2]
    assert line["solved"] is True


def test_demo_tasks_are_there_and_their_samples_can_be_read(repository: Path) -> None:
    for name in ("passbench_demo_dataset.jsonl", "scripted_demo_dataset.jsonl"):
        for task in read_tasks(repository / "pass_agent" / "datasets" / name):
            sample = read_sample_source(repository / task.sample_dir)
            assert sample.graph_hashes
    script = read_script(repository / "pass_agent" / "examples" / "demo_script.yaml")
    assert script.default[-1].calls[0].name == "submit"


def test_dataset_files_are_made_from_samples_and_lists(tmp_path: Path) -> None:
    for model, kind in (("a", "x"), ("a", "y"), ("b", "z")):
        folder = tmp_path / "samples/fusible_subgraphs" / model / kind
        folder.mkdir(parents=True)
        (folder / "entry.sh").write_text("")
    (tmp_path / "sample_lists/eval").mkdir(parents=True)
    (tmp_path / "sample_lists/eval/small.txt").write_text(
        "samples/hf_subgraphs_v2/fusible_subgraphs/00/08/0008\n"
    )
    written = write_datasets(tmp_path, tmp_path / "out", 2, "passnet:latest")
    assert [(path.name, count) for path, count in written] == [
        ("passbench_demo_dataset.jsonl", 2),
        ("small_dataset.jsonl", 1),
    ]
    demo = read_tasks(written[0][0])
    assert [task.instance_id for task in demo] == ["a__x", "b__z"]
    assert read_lines(written[1][0])[0] == {
        "swe_type": "passnet",
        "sample_dir": "samples/hf_subgraphs_v2/fusible_subgraphs/00/08/0008",
        "repo_name": "passnet",
        "docker_image": "passnet:latest",
        "instance_id": "fusible_subgraphs__00__08__0008",
    }
    assert spread(["a/1", "a/2", "b/1"], 5) == ["a/1", "b/1", "a/2"]
    assert instance_id("samples/x") == "x"
    with pytest.raises(BadInput, match="no example sample"):
        write_datasets(tmp_path / "out", tmp_path / "out", 2, "")


def test_the_example_shown_is_similar_and_not_the_task_itself(repository: Path) -> None:
    examples = read_examples(repository / "samples")
    task = read_sample_source(repository / "samples/fusible_subgraphs/Llama-3.2-1B/silu_mul")
    by_name = {Path(example.name).name: example for example in examples}
    own = by_name["silu_mul"]
    for device in ("cuda", "cpu"):
        chosen, similar = choose_example(examples, own.operators, task.graph_hashes, device)
        assert chosen is not None and similar
        assert not chosen.graph_hashes & set(task.graph_hashes)
        assert "mul" in chosen.operators
        text = "".join(files_for(chosen, device).values())
        assert ("cpp_kernel" in text, "import triton" in text) == (device == "cpu", device == "cuda")
    assert choose_example(examples, own.operators, (), "cuda") == (own, True)
    smallest, similar = choose_example(examples, Counter({"no_such": 1}), (), "cuda")
    assert smallest is not None and not similar


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_pass_in_the_prompt_would_be_accepted(tmp_path: Path, repository: Path, device: str) -> None:
    """`passbench check` on the prompt's own example: source rules, loading, and a match."""
    sample = make_real_sample(tmp_path / "sample", repository)
    model = sample / "graphs/mul_relu/model.py"
    model.write_text(model.read_text().replace("in_0 * in_1", "in_0 + in_1"))
    text = problem_statement("t", [], Machine(device))
    (shown,) = [block for block in text.split("```python\n")[1:] if "def pattern" in block]
    (sample / "pass_dir/add_relu.py").write_text(shown.split("```")[0])
    (sample / f"pass_dir/{MANIFEST}").write_text('["add_relu"]')
    checked = subprocess.run(
        [sys.executable, "-m", "pass_bench", "check", sample],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # not seen in the box where the pass is loaded
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "add_relu: replaced 1 of 1 matches" in checked.stdout


@pytest.mark.full
@pytest.mark.serial
def test_the_cpu_pass_in_the_prompt_is_correct(tmp_path: Path, repository: Path) -> None:
    text = problem_statement("t", [], Machine("cpu"))
    (shown,) = [block for block in text.split("```python\n")[1:] if "def pattern" in block]
    shown = shown.split("```")[0].replace("x + y", "x * y").replace("count) + pn", "count) * pn")
    assert shown.count(" * ") >= 2
    turns = [write_file("pass_dir/fuse.py", shown), manifest("fuse"), EVALUATE, SUBMIT]
    line = run(tmp_path, repository, turns)
    assert "mul_relu: correct" in observations(line)[2]
