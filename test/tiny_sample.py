"""A sample small enough to evaluate in a second: relu(x + y), and a C++ pass for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

MODEL = """import torch


class GraphModule(torch.nn.Module):
    def forward(self, in_0, in_1):
        tmp_0 = in_0 + in_1
        tmp_1 = torch.nn.functional.relu(tmp_0)
        tmp_0 = None
        return (tmp_1,)
"""
META = """class Program_weight_tensor_meta_L_x_{n}:
    name = "in_{n}"
    original_name = "L_x_{n}"
    shape = {shape}
    dtype = "torch.{dtype}"
    device = "cpu"
    mean = {mean}
    std = {std}
    data = None
"""
PASS = '''"""Adds and clips in one loop."""

import torch
from pass_bench.kernels import cpp_kernel

SOURCE = """
void add_relu(const float* x, const float* y, float* out, int64_t n) {
    for (int64_t i = 0; i < n; ++i) { float s = x[i] + y[i]; out[i] = s > 0 || s != s ? s : 0; }
}
"""
kernel = cpp_kernel(SOURCE, "add_relu(const float* x, const float* y, float* out, int64_t n)")


def pattern(x, y):
    return torch.nn.functional.relu(x + y)


def replacement_args(x, y):
    return (x, y)


@torch.fx.wrap
def add_relu(x, y):
    out = torch.empty_like(x)
    kernel(x, y, out, x.numel())
    return out


def replacement_func():
    return add_relu
'''


def write_graph_folder(folder: Path, model: str = MODEL, metas: str | None = None) -> Path:
    """Write a graph directory with two float32 inputs of shape [8, 16]."""
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(model)
    if metas is None:
        metas = "\n".join(META.format(n=n, shape=[8, 16], dtype="float32", mean=0.1, std=1.0) for n in (0, 1))
    (folder / "weight_meta.py").write_text(metas)
    (folder / "input_meta.py").write_text("")
    (folder / "graph_net.json").write_text(json.dumps({"framework": "torch", "model_name": "tiny"}))
    return folder


@pytest.fixture
def make_sample(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a sample: graphs by name, passes by name (both as source text)."""

    def make(
        graphs: dict[str, str] | None = None,
        passes: dict[str, str] | None = None,
        name: str = "sample",
        metas: str | None = None,
    ) -> Path:
        sample = tmp_path / name
        graphs = {"tiny": MODEL} if graphs is None else graphs
        passes = {"AddRelu": PASS} if passes is None else passes
        for graph, model in graphs.items():
            write_graph_folder(sample / "graphs" / graph, model, metas)
        (sample / "graph_list.txt").write_text("".join(f"graphs/{graph}\n" for graph in graphs))
        (sample / "pass_dir").mkdir()
        for stem, text in passes.items():
            (sample / "pass_dir" / f"{stem}.py").write_text(text)
        (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text(json.dumps(list(passes)))
        return sample

    yield make
    shutil.rmtree(tmp_path, ignore_errors=True)
