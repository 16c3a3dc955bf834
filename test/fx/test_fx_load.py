"""Executing model.py in its three spellings, with device literals moved in every form."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest
import torch

from pass_bench.data import Argument, Graph, TensorMeta, read_graph
from pass_bench.errors import BadInput
from pass_bench.fx import capture, load_module
from pass_bench.fx.load import MoveDevices
from pass_bench.inputs import make_inputs

HEADER = "import torch\nfrom torch import device\n\nclass GraphModule(torch.nn.Module):\n"


def graph(code: str, names: tuple[str, ...], device: str = "cpu") -> Graph:
    metas = {name: TensorMeta(name, (2, 2), "float32", device) for name in names}
    arguments = tuple(Argument(name, "tensor") for name in names)
    return Graph(Path("/somewhere/g"), "g", HEADER + textwrap.indent(code, "    "), arguments, metas)


UNPARSED = """
def forward(self, in_0, w_0):
    tmp_0 = torch.nn.functional.linear(in_0, w_0, None)
    tmp_1 = tmp_0[slice(None, 1, None)]
    tmp_0 = None
    return (tmp_1,)
"""
PRINTOUT = """
def forward(self, in_0 : torch.Tensor, w_0):
    linear = torch.nn.functional.linear(in_0, w_0, None);  in_0 = w_0 = None
    tmp_1 = linear[slice(None, 1, None)];  linear = None
    return (tmp_1,)
"""
WHOLE = """
def forward(
    self,
    in_0: torch.Tensor,
    w_0: torch.nn.parameter.Parameter,
):
    l_in = in_0
    linear = torch._C._nn.linear(
        l_in, w_0, None
    )
    l_in = None
    getitem = linear[
        (slice(None, 1, None))
    ]
    return (getitem,)
"""


@pytest.mark.parametrize("code", [UNPARSED, PRINTOUT, WHOLE], ids=["unparsed", "printout", "whole"])
def test_all_spellings_give_the_same_two_nodes(code: str) -> None:
    read = graph(code, ("in_0", "w_0"))
    module = load_module(read)
    gm = capture(module, read)
    calls = [n for n in gm.graph.nodes if n.op.startswith("call")]
    assert [getattr(n.target, "__name__", n.target) for n in calls] == ["linear", "getitem"]
    x, w = torch.randn(2, 2), torch.randn(2, 2)
    assert torch.equal(gm(x, w)[0], (x @ w.T)[:1])
    assert torch.equal(module(x, w)[0], gm(x, w)[0])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.to(device(type='cuda', index=0))", "x.to(torch.device('xpu:1'))"),
        ("x.to(torch.device('cuda:0'))", "x.to(torch.device('xpu:1'))"),
        ("x.to('cuda')", "x.to('xpu:1')"),
        ("x.to('cpu', torch.float16)", "x.to('xpu:1', torch.float16)"),
        ("torch.zeros(2, device='cuda:3')", "torch.zeros(2, device='xpu:1')"),
        ("torch.zeros(2, device=device('cpu'))", "torch.zeros(2, device=torch.device('xpu:1'))"),
        ("x.cuda()", "x.to('xpu:1')"),
        ("x.cpu().sum()", "x.to('xpu:1').sum()"),
        ("x.to(device='meta')", "x.to(device='meta')"),
        ("f('cuda is a word')", "f('cuda is a word')"),
        ("torch.zeros(2)", "torch.zeros(2, device='xpu:1')"),
        ("torch.empty_like(x)", "torch.empty_like(x)"),
    ],
)
def test_device_literals_move_in_every_form(before: str, after: str) -> None:
    tree = MoveDevices(torch.device("xpu:1"), default_moves=True).visit(ast.parse(before))
    moved = ast.unparse(ast.fix_missing_locations(tree)).replace("(device(", "(torch.device(")
    assert moved.replace("=device(", "=torch.device(") == after


def test_the_default_device_stays_where_the_graph_was_recorded() -> None:
    tree = MoveDevices(torch.device("cpu"), default_moves=False).visit(ast.parse("torch.zeros(2)"))
    assert ast.unparse(tree) == "torch.zeros(2)"


def test_a_graph_recorded_on_cuda_runs_on_the_cpu() -> None:
    code = """
    def forward(self, in_0):
        a = torch.arange(0, 2, device=device(type='cuda', index=0))
        b = in_0.to('cuda:0') + a
        return (b.to(device=torch.device('cuda')),)
    """
    module = load_module(graph(textwrap.dedent(code), ("in_0",), device="cuda:0"), "cpu")
    assert module(torch.zeros(2, 2))[0].tolist() == [[0.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "code",
    ["def forward(self, in_0):\n    return (in_0", "def forward(self, in_0):\n    return (open('x'),)\n"],
)
def test_what_may_not_run_is_refused_with_its_line(code: str) -> None:
    with pytest.raises(BadInput) as caught:
        load_module(graph(code, ("in_0",)))
    assert caught.value.path == Path("/somewhere/g/model.py")
    assert caught.value.line == 6


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_every_shared_graph_runs_on_the_gpu(shared_dir: Path) -> None:
    for path in sorted((shared_dir / "graphs").glob("gn_*")):
        if path.name == "gn_test_mobilenetv4_swapped_meta":
            continue  # its recorded shapes are permuted: it runs nowhere
        read = read_graph(path)
        module = load_module(read, "cuda")
        gm = capture(module, read)
        results = []
        for call in (module, gm):
            torch.manual_seed(0)
            with torch.no_grad():
                results.append(call(*make_inputs(read, device="cuda")))
        for eager, captured in zip(*results, strict=True):
            torch.testing.assert_close(captured, eager, equal_nan=True)


def operations(code: str) -> int:
    """Operations that a model's text spells: calls, operators, subscripts, attributes of values."""
    forward = next(n for n in ast.walk(ast.parse(code)) if isinstance(n, ast.FunctionDef))
    count = 0
    for statement in forward.body:
        called = {id(n.func) for n in ast.walk(statement) if isinstance(n, ast.Call)}
        for node in ast.walk(statement):
            if isinstance(node, ast.Call):
                count += not (isinstance(node.func, ast.Name) and node.func.id in ("device", "slice"))
            elif isinstance(node, ast.UnaryOp):
                count += not isinstance(node.operand, ast.Constant | ast.Name) or isinstance(
                    node.op, ast.Invert
                )
                count += isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Name)
            elif isinstance(node, ast.Attribute) and id(node) not in called:
                count += not ast.unparse(node).startswith("torch")
            else:
                count += isinstance(node, ast.BinOp | ast.Compare | ast.Subscript | ast.AugAssign)
    return count


def test_every_shared_graph_is_captured_operation_by_operation(shared_dir: Path) -> None:
    counts = {}
    for path in sorted((shared_dir / "graphs").glob("gn_*")):
        read = read_graph(path)
        gm = capture(load_module(read), read)
        counts[path.name] = sum(n.op.startswith("call") for n in gm.graph.nodes)
        assert counts[path.name] == operations(read.code), path.name
        assert [n.name for n in gm.graph.nodes if n.op == "placeholder"] == [a.name for a in read.arguments]
    assert len(counts) == 26
    assert sum(counts.values()) == 3052
