"""The small graphs that the cases of the suite are passes for."""

from __future__ import annotations

from dataclasses import dataclass

from pass_bench.data.records import TensorMeta


@dataclass(frozen=True)
class TargetGraph:
    """A graph as its model.py and its tensor metas."""

    name: str
    code: str
    metas: tuple[TensorMeta, ...]


def _graph(name: str, arguments: str, body: str, **shapes: tuple[int, ...]) -> TargetGraph:
    code = "import torch\n\n\nclass GraphModule(torch.nn.Module):\n"
    code += f"    def forward(self, {arguments}):\n"
    code += "".join(f"        {line}\n" for line in body.strip().splitlines())
    metas = tuple(
        TensorMeta(name=argument, original_name=argument, shape=shape, dtype="float32", mean=0.0, std=1.0)
        for argument, shape in shapes.items()
    )
    return TargetGraph(name, code, metas)


_ALL = (
    _graph(
        "scale_gelu",
        "in_0, w_0, w_1",
        "tmp_0 = in_0 * w_0\ntmp_1 = tmp_0 + w_1\ntmp_2 = torch.nn.functional.gelu(tmp_1)\nreturn (tmp_2,)",
        in_0=(60, 512),  # below the size at which eager spreads over threads
        w_0=(512,),
        w_1=(512,),
    ),
    _graph(
        "linear_relu",
        "in_0, w_0, w_1",
        "tmp_0 = torch.nn.functional.linear(in_0, w_0, w_1)\ntmp_1 = torch.relu(tmp_0)\nreturn (tmp_1,)",
        in_0=(48, 64),
        w_0=(64, 64),
        w_1=(64,),
    ),
    _graph(
        "tiny_add",
        "in_0, in_1",
        "tmp_0 = in_0 + in_1\ntmp_1 = torch.relu(tmp_0)\nreturn (tmp_1,)",
        in_0=(4, 32),
        in_1=(4, 32),
    ),
    _graph(
        "large_add",
        "in_0, in_1",
        "tmp_0 = in_0 + in_1\ntmp_1 = torch.relu(tmp_0)\nreturn (tmp_1,)",
        in_0=(2048, 4096),
        in_1=(2048, 4096),
    ),
    _graph(
        "views",
        "in_0",
        "tmp_0 = in_0.transpose(0, 1)\ntmp_1 = tmp_0.unsqueeze(0)\nreturn (tmp_1,)",
        in_0=(64, 128),
    ),
    _graph(
        "mean_square",
        "in_0",
        "tmp_0 = in_0 * in_0\ntmp_1 = tmp_0.mean()\nreturn (tmp_1,)",
        in_0=(1024, 1024),
    ),
    _graph(
        "accumulate",
        "in_0, in_1",
        "tmp_0 = in_0.add_(in_1)\ntmp_1 = torch.relu(tmp_0)\nreturn (tmp_1,)",
        in_0=(32, 512),
        in_1=(32, 512),
    ),
)
GRAPHS = {graph.name: graph for graph in _ALL}
