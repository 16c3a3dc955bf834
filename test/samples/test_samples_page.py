"""docs/writing-passes.md is true: its files make passes that are right, and it says what is printed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch

from pass_bench.data import read_graph
from pass_bench.fx import capture, load_module, rewrite
from pass_bench.guard.source_rules import check_pass_dir
from pass_bench.inputs import make_inputs
from pass_bench.kernels import interpreter
from pass_bench.passes import PassRule
from pass_bench.passes.load import load_passes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "writing-passes.md"
BLOCK = re.compile(r"<!-- (file|output): (\S+) -->\n```\w+\n(.*?)```", re.S)
NO_GPU = not torch.cuda.is_available()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, written where it says."""
    folder = tmp_path_factory.mktemp("page")
    manifest = ""
    for kind, name, text in BLOCK.findall(PAGE.read_text()):
        if kind == "file":
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            manifest = text if name.endswith(".json") else manifest
    for name in ("graph_net.json", "input_meta.py", "input_tensor_constraints.py"):
        (folder / "graphs" / "scores" / name).write_text("{}" if name.endswith("json") else "")
    for variant in ("triton", "cuda"):
        (folder / variant / "pass_dir" / "sorted_output_pass_rule_names.json").write_text(manifest)
    return folder


def _check(page: Path, pass_dir: str, device: str) -> None:
    graph = read_graph(page / "graphs" / "scores")
    module = load_module(graph, device)
    rewritten = rewrite(capture(module, graph), load_passes(page / pass_dir, device=device).rules)
    assert [report.replaced for report in rewritten.reports] == [1], rewritten.reports
    for regime in ("recorded", "random"):
        inputs = make_inputs(graph, regime, 123, device)
        for one, other in zip(rewritten.module(*inputs), module(*inputs), strict=True):
            assert torch.equal(one, other)


def test_the_cpp_pass_equals_eager(page: Path):
    _check(page, "pass_dir", "cpu")


@pytest.mark.skipif(not NO_GPU, reason="Triton is not interpreted on a machine with a GPU")
def test_the_triton_pass_equals_eager_under_the_interpreter(page: Path):
    pytest.importorskip("triton")
    interpreter.enable()
    _check(page, "triton/pass_dir", "cpu")


@pytest.mark.gpu
@pytest.mark.skipif(NO_GPU, reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("variant", ["triton", "cuda"])
def test_the_gpu_passes_equal_eager(page: Path, variant: str):
    _check(page, f"{variant}/pass_dir", "cuda")


@pytest.mark.parametrize("pass_dir", ["pass_dir", "triton/pass_dir", "cuda/pass_dir"])
def test_the_passes_obey_the_source_rules(page: Path, pass_dir: str):
    assert check_pass_dir(page / pass_dir) == ()


def test_the_nearest_miss_is_what_the_page_says(page: Path):
    spec = importlib.util.spec_from_file_location("miss", page / "miss.py")
    assert spec is not None and spec.loader is not None
    miss = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(miss)
    graph = read_graph(page / "graphs" / "scores")
    rule = PassRule("miss", miss.pattern, lambda x, bias: (x, bias), lambda: torch.relu)
    (report,) = rewrite(capture(load_module(graph), graph), [rule]).reports
    (said,) = (text for kind, _, text in BLOCK.findall(PAGE.read_text()) if kind == "output")
    assert " ".join(said.split()) == report.nearest_miss
