"""`passbench show` and the code it prints."""

from __future__ import annotations

import math
import operator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner

from pass_bench.data import read_graph
from pass_bench.errors import BadInput
from pass_bench.fx import capture, find_matches, load_module, trace_pattern
from pass_bench.fx.commands import show_command
from pass_bench.fx.source import to_python


def everything(x, y):
    y += x
    y[:, 1:, None, ..., ::2] = -1.5
    kept = operator.iadd(x, y)
    a = torch.arange(0, 4, device=torch.device("cpu"), dtype=torch.float16)
    b = 2 - x @ y.T
    c = F.softmax(b[0], dim=-1).masked_fill(~a.bool(), float("-inf"))
    d = torch.ops.aten.sym_size.int(c, 0)
    e = math.sqrt(d)
    return x.view((-1,)), kept, c[(0,)], e


TEXT = """\
import math
import operator
import torch


def pattern(x, y):
    y += x
    y[:, 1:, None, ..., ::2] = -1.5
    kept = operator.iadd(x, y)
    a = torch.arange(0, 4, device=torch.device("cpu"), dtype=torch.float16)
    T = y.T
    matmul = x @ T
    b = 2 - matmul
    getitem = b[0]
    softmax = torch.nn.functional.softmax(getitem, dim=-1)
    bool_1 = a.bool()
    invert = ~bool_1
    c = softmax.masked_fill(invert, float("-inf"))
    d = torch.ops.aten.sym_size.int(c, 0)
    e = math.sqrt(d)
    view = x.view((-1,))
    getitem_1 = c[0,]
    return (view, kept, getitem_1, e)
"""


def test_code_is_written_as_a_person_would() -> None:
    assert to_python(trace_pattern(everything)) == TEXT


def retraced(text: str) -> Any:
    scope: dict[str, Any] = {}
    exec(text, scope)
    return trace_pattern(scope["pattern"])


def test_code_traces_back_to_the_same_graph() -> None:
    gm = trace_pattern(everything)
    again = retraced(TEXT)
    assert len(find_matches(again, gm)) == 1
    assert to_python(again) == TEXT


def test_every_shared_graph_round_trips(shared_dir: Path) -> None:
    for path in sorted((shared_dir / "graphs").glob("gn_*")):
        graph = read_graph(path)
        gm = capture(load_module(graph), graph)
        again = retraced(to_python(gm))
        ours = [(n.op, n.target, n.kwargs.keys()) for n in gm.graph.nodes]
        assert [(n.op, n.target, n.kwargs.keys()) for n in again.graph.nodes] == ours


def test_show_prints_metas_and_code(shared_dir: Path) -> None:
    path = shared_dir / "graphs" / "gn_torchgeometric_Node2Vec"
    result = CliRunner().invoke(show_command, [str(path)], catch_exceptions=False)
    code = result.output
    assert result.exit_code == 0
    assert code.startswith("# ")
    assert "def pattern(" in code
    (arguments,) = [line for line in code.splitlines() if line.startswith("def")]
    assert sum(line.startswith("# ") for line in code.splitlines()) == arguments.count(",") + 1


def test_show_cuts_out_nodes(shared_dir: Path) -> None:
    path = shared_dir / "graphs" / "gn_hf_microsoft_deberta-base"
    result = CliRunner().invoke(show_command, [str(path), "--nodes", "mean:variance"], catch_exceptions=False)
    assert result.output == (
        "import torch\n\n\n"
        "def pattern(hidden_states_4):\n"
        "    mean = hidden_states_4.mean(-1, keepdim=True)\n"
        "    sub = hidden_states_4 - mean\n"
        "    pow_1 = sub.pow(2)\n"
        "    variance = pow_1.mean(-1, keepdim=True)\n"
        "    return (mean, variance)\n"
    )
    with pytest.raises(BadInput, match="the graph has no node 'nothing'"):
        CliRunner().invoke(show_command, [str(path), "--nodes", "nothing"], catch_exceptions=False)
