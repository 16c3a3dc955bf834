"""Samples in every layout that was published are imported, and evaluate as they are."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_sample import META, PASS

from pass_bench.data import sample_hash
from pass_bench.dataset.unpack import import_published

SOURCE = """import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        tmp_0 = in_0 + in_1
        tmp_1 = torch.nn.functional.relu(tmp_0)
        tmp_0 = None
        return (tmp_1,)
"""
PRINTOUT = """import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0 : torch.Tensor, in_1):
        add = in_0 + in_1;  in_0 = in_1 = None
        relu = torch.nn.functional.relu(add);  add = None
        return (relu,)
"""
WHOLE = """import torch
from torch import device


class GraphModule(torch.nn.Module):
    def forward(
        self,
        L_x_0: torch.Tensor,
        L_x_1: torch.nn.parameter.Parameter,
    ):
        l_x_0 = L_x_0
        l_x_1 = L_x_1
        add = l_x_0 + l_x_1
        l_x_0 = l_x_1 = None
        relu = torch.nn.functional.relu(add)
        add = None
        return (relu,)
"""
METAS = "\n".join(META.format(n=n, shape=[8, 16], dtype="float32", mean=0.1, std=1.0) for n in (0, 1))
UIDS = tuple(hashlib.md5(word).hexdigest() for word in (b"one", b"two"))


@dataclass(frozen=True)
class Layout:
    """How one generation of samples looks: its paths, its graphs' spellings, the name of the package."""

    sample: str
    graphs: str
    codes: tuple[str, ...]
    package: str
    uids: tuple[str, ...] = ()


def hashed(parent: str) -> str:
    name = sample_hash(UIDS)
    return f"{parent}/{name[:2]}/{name[2:4]}/{name}"


LAYOUTS = {
    "plain": Layout(
        "samples/fusible_subgraphs/tiny/tiny_start0_end2_0",
        "graphs/fusible_subgraphs/samples/lib/tiny/_decomposed/tiny_start0_end2",
        (SOURCE,),
        "graph_net_bench",
    ),
    "v1": Layout(
        hashed("samples/hf_subgraphs/fusible_subgraphs"),
        "graphs/hf_subgraphs/fusible_subgraphs/9/samples/lib/tiny/_decomposed/tiny_start0_end2",
        (SOURCE, WHOLE),
        "graph_net_bench",
    ),
    "v2": Layout(
        hashed("samples/hf_subgraphs_v2/fusible_subgraphs"),
        "graphs/hf_subgraphs_v2/fusible_subgraphs/float32/9/samples/lib/tiny/_decomposed/tiny_start0_end2",
        (SOURCE, PRINTOUT),
        "pass_bench",
        UIDS,
    ),
}


def write_published(root: Path, layout: Layout) -> None:
    """The layout as a download of it looks: links that lead nowhere included."""
    sample = root / layout.sample
    (sample / "pass_dir").mkdir(parents=True)
    (sample / "pass_dir" / ".ignore").write_text("")
    listed = []
    for number, code in enumerate(layout.codes):
        folder = root / f"{layout.graphs}_{number}"
        folder.mkdir(parents=True)
        metas = METAS.replace('name = "in_', 'name = "L_x_') if code is WHOLE else METAS
        (folder / "model.py").write_text(code)
        (folder / "weight_meta.py").write_text(metas)
        for name in ("input_meta.py", "input_tensor_constraints.py"):
            (folder / name).write_text("")
        info = {"framework": "torch", "num_devices_required": 1, "num_nodes_required": 1, "dynamic": False}
        (folder / "graph_net.json").write_text(json.dumps({**info, "model_name": folder.name}, indent=4))
        (folder / "graph_hash.txt").write_text(hashlib.sha256(code.encode()).hexdigest())
        listed.append(f"{layout.graphs}_{number}\n")
    (sample / "graph_list.txt").write_text("".join(listed))
    if layout.uids:
        (sample / "sample_uids.txt").write_text(",".join(layout.uids))
    up = "../" * len(Path(layout.sample).parts)
    for name, target in {
        "entry.sh": "entry_scripts/entry.sh",
        "graphs": "graphs",
        layout.package: layout.package,
    }.items():
        (sample / name).symlink_to(up + target)


@pytest.fixture(params=sorted(LAYOUTS))
def imported(request: pytest.FixtureRequest, tmp_path: Path, repository: Path) -> tuple[Layout, Path]:
    """A layout and its sample in a project that took it over, with one pass written for it."""
    layout = LAYOUTS[request.param]
    write_published(tmp_path / "download", layout)
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pass_bench", "entry_scripts"):
        (project / name).symlink_to(repository / name)
    assert import_published(tmp_path / "download", project) == 1
    sample = project / layout.sample
    (sample / "pass_dir" / "AddRelu.py").write_text(PASS)
    (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text('["AddRelu"]')
    return layout, sample


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    binaries = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**kept, "PATH": binaries, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_an_imported_sample_keeps_its_names_and_its_links_lead_somewhere(
    imported: tuple[Layout, Path],
) -> None:
    layout, sample = imported
    assert (sample / layout.package).is_symlink() and (sample / layout.package / "cli.py").is_file()
    assert (sample / "entry.sh").is_file() and (sample / "graphs").is_dir()
    listed = (sample / "graph_list.txt").read_text().split()
    assert listed == [f"{layout.graphs}_{number}" for number in range(len(layout.codes))]
    for name, code in zip(listed, layout.codes, strict=True):
        assert (sample / name / "model.py").read_text() == code
    assert not layout.uids or (sample / "sample_uids.txt").read_text() == ",".join(layout.uids)


def test_its_entry_script_evaluates_it(imported: tuple[Layout, Path], tmp_path: Path) -> None:
    layout, sample = imported
    done = run(
        ["bash", str(sample / "entry.sh")],
        tmp_path,
        PASSNET_EVAL_OUTPUT=str(tmp_path / "out"),
        PASSNET_WARMUP="1",
        PASSNET_TRIALS="3",
        PASSNET_DEVICE="cpu",
        PASSNET_PYTHON=sys.executable,
    )
    count = len(layout.codes)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{count} of {count} graphs correct at t = -5" in done.stdout
    score = json.loads((tmp_path / "out" / "aggregated_score.json").read_text())
    assert score["correct"] == count


def test_the_published_command_evaluates_it(imported: tuple[Layout, Path], tmp_path: Path) -> None:
    """By the module's name as the sample calls it, from within the sample."""
    layout, sample = imported
    settings = {
        "pass_match_result_file_path": str(tmp_path / "match.json"),
        "input_pass_rule_dir": str(sample / "const_pass_dir"),
        "output_pass_rule_dir": str(sample / "pass_dir"),
        "output_pass_pattern_limit": 8,
        "output_pass_replacement_func_limit": 1,
    }
    command = [
        "python3",
        *("-m", f"{layout.package}.torch.test_compiler"),
        *("--model-path-prefix", str(sample), "--allow-list", str(sample / "graph_list.txt")),
        *("--compiler", "pass_mgr", "--device", "cpu", "--warmup", "1", "--trials", "3"),
        *("--log-prompt", "graph-net-test-compiler-log"),
        *("--config", base64.b64encode(json.dumps(settings).encode()).decode()),
    ]
    done = run(command, sample)
    assert done.returncode == 0, done.stderr
    log = done.stdout + done.stderr
    assert log.count("graph-net-test-compiler-log [Result] status: success") == len(layout.codes), log
    matched = json.loads((tmp_path / "match.json").read_text())
    assert matched == {line: {"AddRelu": 1} for line in (sample / "graph_list.txt").read_text().split()}
