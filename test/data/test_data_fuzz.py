"""Damaged graph and sample directories are read or refused in one line; nothing else ever happens."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pass_bench.data import check_model_source, read_graph, read_manifest, read_sample
from pass_bench.errors import BadInput

MODEL = """import torch
from torch import device

class GraphModule(torch.nn.Module):
    def forward(self, in_0, w_0 : torch.Tensor):
        tmp_0 = torch.nn.functional.linear(in_0, w_0, None);  in_0 = None
        tmp_1 = tmp_0[(slice(None, None, None), 0)].to(device(type='cuda', index=0))
        return (tmp_1,)
"""
METAS = """class Program_weight_tensor_meta_in_0:
    name = "in_0"
    shape = [2, 3]
    dtype = "torch.float32"
    device = "cuda:0"
    mean = 0.000
    std = 1.000
    data = [0.5, 1.5, -2.5, 0.0, 1.0, 2.0]


class Program_weight_tensor_meta_w_0:
    name = "w_0"
    original_name = "L_self_w_"
    shape = [4, 3]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = None
    std = None
    max_val = 1.0
    min_val = -1.0
"""
FILES = {
    "graphs/g/model.py": MODEL,
    "graphs/g/weight_meta.py": METAS,
    "graphs/g/input_meta.py": "",
    "graphs/g/graph_net.json": '{"framework": "torch", "model_name": "m"}',
    "graphs/g/subgraph_sources.json": '{"samples/a": [[1, 2]]}',
    "graphs/g/input_tensor_constraints.py": "",
    "graph_list.txt": "graphs/g\n",
    "sample_uids.txt": "a,b",
    "pass_dir/sorted_output_pass_rule_names.json": '["A"]',
    "pass_dir/A.py": "",
}
TOKENS = [
    "(",
    ")",
    "[",
    "]",
    "'",
    '"',
    "=",
    ",",
    "\n",
    "\0",
    "None",
    "nan",
    "-",
    "1e999",
    "torch.",
    "self",
    "é",
]


def damaged(rng: random.Random, text: str) -> bytes | None:
    """The text with a few random edits, now and then no file at all."""
    data = bytearray(text.encode())
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(data))
        match rng.randint(0, 6):
            case 0:
                del data[at : at + rng.randint(1, 30)]
            case 1:
                data[at:at] = rng.choice(TOKENS).encode()
            case 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(3))
            case 3:
                data = data[:at]
            case 4:
                lines = bytes(data).split(b"\n")
                rng.shuffle(lines)
                data = bytearray(b"\n".join(lines))
            case 5:
                data += data[:at]
            case 6 if rng.random() < 0.1:
                return None
    return bytes(data)


@pytest.mark.parametrize("count", [400, pytest.param(5000, marks=pytest.mark.full)])
def test_damage_costs_one_line(tmp_path: Path, count: int) -> None:
    rng = random.Random(7)
    messages: set[str] = set()
    for round_number in range(count):
        root = tmp_path / str(round_number)
        victim = rng.choice(list(FILES))
        for name, text in FILES.items():
            data = damaged(rng, text) if name == victim else text.encode()
            if data is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(data)
        try:
            sample = read_sample(root)
            read_manifest(sample.pass_dir)
            for reference in sample.graphs:
                check_model_source(read_graph(reference.path).code, reference.path / "model.py")
        except BadInput as error:
            assert "\n" not in str(error) and error.path is not None
            messages.add(error.what.split(":")[0].split(" in ")[0])
    assert len(messages) >= 25, sorted(messages)
