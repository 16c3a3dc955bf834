"""Graph directories: the three spellings, all meta fields, and what is refused."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from pass_bench.data import read_graph, write_graph
from pass_bench.data.metas import format_metas, parse_metas
from pass_bench.data.records import Argument, TensorMeta
from pass_bench.errors import BadInput

UNPARSED = """import torch

class GraphModule(torch.nn.Module):
    def forward(self, in_0, w_0):
        tmp_0 = torch.conv2d(in_0, w_0, None, (1, 1), (1, 1), (1, 1), 1)
        in_0 = w_0 = None
        tmp_1 = tmp_0[(slice(None, None, None), slice(None, 8, None))]
        tmp_0 = None
        return (tmp_1,)
"""
PRINTOUT = """import torch

class GraphModule(torch.nn.Module):


    def forward(self, w_0 : torch.Tensor, in_0, in_1):
        linear = torch.nn.functional.linear(in_0, w_0, None);  in_0 = w_0 = None
        return (linear,)
"""
REFORMATTED = """import torch
from torch import device
from torch import inf

class GraphModule(torch.nn.Module):
    def forward(
        self,
        s77: torch.SymInt,
        L_x_: torch.Tensor,
        L_self_parameters_weight_: torch.nn.parameter.Parameter,
    ):
        l_x_ = L_x_
        l_w = (
            L_self_parameters_weight_
        )
        y = l_x_.masked_fill(l_x_ == 0, -inf).to(device(type="cuda", index=0))
        return (y, l_w, s77)
"""


def meta(name: str, shape: str = "[2, 3]", dtype: str = "torch.float32", **fields: str) -> str:
    rest = "".join(f"    {key} = {value}\n" for key, value in fields.items())
    return (
        f"class Program_weight_tensor_meta_{name}:\n"
        f'    name = "{name}"\n    shape = {shape}\n    dtype = "{dtype}"\n{rest}'
    )


def graph_dir(folder: Path, code: str, *metas: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "model.py").write_text(code)
    (folder / "weight_meta.py").write_text("\n\n".join(metas))
    return folder


def test_all_spellings_give_the_signature(tmp_path: Path) -> None:
    unparsed = read_graph(graph_dir(tmp_path / "a", UNPARSED, meta("w_0"), meta("in_0")))
    assert [a.name for a in unparsed.arguments] == ["in_0", "w_0"]
    printout = read_graph(graph_dir(tmp_path / "b", PRINTOUT, meta("w_0"), meta("in_0"), meta("in_1")))
    assert [a.name for a in printout.arguments] == ["w_0", "in_0", "in_1"]
    symint = meta("s77", "[]", "torch.int64", data="[4]")
    long_names = (meta("L_x_"), meta("L_self_parameters_weight_"), symint)
    reformatted = read_graph(graph_dir(tmp_path / "c", REFORMATTED, *long_names))
    assert reformatted.arguments == (
        Argument("s77", "symint"),
        Argument("L_x_", "tensor"),
        Argument("L_self_parameters_weight_", "tensor"),
    )
    assert reformatted.class_name == "GraphModule"
    assert reformatted.info is None


def test_unannotated_symbol_is_a_symint_only_as_0_dim_int64(tmp_path: Path) -> None:
    scalar = meta("in_1", "[]", "torch.int64", original_name='"s3"', data="[7]")
    graph = read_graph(graph_dir(tmp_path / "a", PRINTOUT, meta("w_0"), meta("in_0"), scalar))
    assert graph.arguments[2] == Argument("in_1", "symint")
    counter = meta("in_1", "[]", "torch.int64", original_name='"L_num_batches_tracked_"', data="[7]")
    graph = read_graph(graph_dir(tmp_path / "b", PRINTOUT, meta("w_0"), meta("in_0"), counter))
    assert graph.arguments[2] == Argument("in_1", "tensor")


def test_meta_fields() -> None:
    text = (
        meta(
            "a",
            "(2,)",
            original_name='"L_a_"',
            device='"cuda:0"',
            mean="-0.125",
            std="0.000",
            data="[1, -2.5]",
            max_val="3",
            min_val="-3",
        )
        + meta("b", mean="nan", std='float("inf")', min_val="0")
        + meta("c", mean="None", std="None", data="None", max_val="-inf")
        + meta("d", "[]", "torch.bool", data="[True]")
    )
    a, b, c, d = parse_metas(text, Path("weight_meta.py"))
    assert a == TensorMeta(
        name="a",
        shape=(2,),
        dtype="float32",
        device="cuda:0",
        original_name="L_a_",
        mean=-0.125,
        std=0.0,
        data=(1, -2.5),
        min_val=-3,
        max_val=3,
        class_name="Program_weight_tensor_meta_a",
    )
    assert b.mean is not None and math.isnan(b.mean) and b.std == math.inf
    assert b.min_val == 0 and b.max_val is None and b.original_name is None and b.device == "cpu"
    assert (c.mean, c.std, c.data, c.max_val) == (None, None, None, -math.inf)
    assert d.data == (True,) and d.shape == () and d.numel == 1


def test_empty_meta_file_has_no_metas() -> None:
    assert parse_metas("", Path("input_meta.py")) == ()


@pytest.mark.parametrize("last", ["nan", "-inf", "1e400"])
def test_megabytes_of_data_parse_fast(last: str) -> None:
    count = 200_000
    values = ",\n        ".join(["-0.125000"] * (count - 1) + [last])
    text = meta("a", f"[{count}]", mean="0.0", data=f"[\n        {values},\n    ]", min_val="0")
    started = time.process_time()
    (parsed,) = parse_metas(text + "\n\n" + meta("b"), Path("w.py"))[:1]
    seconds = time.process_time() - started
    assert parsed.data is not None and len(parsed.data) == count and parsed.data[0] == -0.125
    assert str(parsed.data[-1]) == {"1e400": "inf"}.get(last, last)
    assert parsed.min_val == 0
    assert seconds < 3


def test_long_data_that_is_not_json_still_parses() -> None:
    (parsed,) = parse_metas(meta("a", "[5000]", data=f"[{'1_000, ' * 5000}]"), Path("w.py"))
    assert parsed.data == (1000,) * 5000


def test_line_numbers_survive_long_lists() -> None:
    values = ",\n".join(["0.5"] * 5000)
    text = meta("a", "[5000]", data=f"[{values}]") + meta("b", shape='"x"')
    with pytest.raises(BadInput, match="shape is not a list") as error:
        parse_metas(text, Path("w.py"))
    assert error.value.line is not None
    assert text.splitlines()[error.value.line - 1].strip() == 'shape = "x"'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = 1", "unexpected statement"),
        ("class A:\n    def f(self): pass", "unexpected statement"),
        ('class A:\n    shape = [1]\n    dtype = "torch.float32"', "no name"),
        (meta("a", dtype="torch.float31"), "dtype is not known"),
        (meta("a", shape="[-1]"), "shape is not a list"),
        (meta("a", shape="[True]"), "shape is not a list"),
        (meta("a", shape="[99999999, 99999999]"), "2\\^40"),
        (meta("a", data="[1.0]"), "data has 1 elements"),
        (meta("a", data="['x']"), "not a number"),
        (meta("a", data="[[1], [2]]"), "not a number"),
        (meta("a", mean="__import__('os').getpid()"), "not a literal"),
        (meta("a", mean="[x for x in y]"), "not a literal"),
        (meta("a", mean='"1"'), "mean is not a number"),
        (meta("a", std="-1.0"), "std is negative"),
        (meta("a", min_val="2", max_val="1"), "min_val is above"),
        (meta("a", device='"cuda; rm"'), "device is not known"),
        (meta("a", mean='float("a")'), "not a number"),
        ("class A:\n    x = ", "syntax error"),
        ("\0", "not Python|syntax error"),
        (meta("a", mean="-" * 5000 + "1"), "nested too deep"),
    ],
)
def test_bad_metas_are_one_line_with_the_file(text: str, what: str) -> None:
    with pytest.raises(BadInput, match=what) as error:
        parse_metas(text, Path("weight_meta.py"))
    assert str(error.value).startswith("weight_meta.py")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("code", "what", "line"),
    [
        ("import torch\nx = (", "syntax error", 2),
        ("import torch", "no class GraphModule", None),
        ("class GraphModule:\n    pass", "no forward", 1),
        ("class GraphModule:\n    def forward(self, *a): pass", "plain|args", 2),
        ("class GraphModule:\n    def forward(self, a=1): pass", "defaults", 2),
        ("class GraphModule:\n    def forward(a): pass", "no self", 2),
        ("class GraphModule:\n    def forward(self,\n       in_9): pass", "in_9 has no meta", 3),
        ("class GraphModule:\n    def forward(self, w_0: torch.SymInt): pass", "SymInt argument", None),
    ],
)
def test_bad_models_are_one_line(tmp_path: Path, code: str, what: str, line: int | None) -> None:
    with pytest.raises(BadInput, match=what) as error:
        read_graph(graph_dir(tmp_path / "g", code, meta("w_0")))
    assert error.value.line == line
    assert "\n" not in str(error.value)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such graph directory"):
        read_graph(tmp_path / "none")
    (tmp_path / "model.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_graph(tmp_path)
    (tmp_path / "model.py").write_text(UNPARSED)
    with pytest.raises(BadInput, match="no such file"):
        read_graph(tmp_path)


def test_two_metas_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = graph_dir(tmp_path / "g", UNPARSED, meta("in_0"), meta("w_0"))
    (folder / "input_meta.py").write_text(meta("in_0"))
    with pytest.raises(BadInput, match="two metas for in_0"):
        read_graph(folder)


def test_input_meta_is_honoured_when_not_empty(tmp_path: Path) -> None:
    folder = graph_dir(tmp_path / "g", UNPARSED, meta("w_0"))
    (folder / "input_meta.py").write_text(meta("in_0", shape="[7]"))
    assert read_graph(folder).metas["in_0"].shape == (7,)


@pytest.mark.parametrize("name", ["graph_net.json", "subgraph_sources.json"])
@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_bad_json_beside_a_graph(tmp_path: Path, name: str, text: str) -> None:
    folder = graph_dir(tmp_path / "g", UNPARSED, meta("in_0"), meta("w_0"))
    (folder / name).write_text(text)
    with pytest.raises(BadInput, match="JSON"):
        read_graph(folder)


def test_all_real_graphs_load(shared_dir: Path) -> None:
    folders = sorted(path for path in (shared_dir / "graphs").iterdir() if path.is_dir())
    graphs = [read_graph(folder) for folder in folders]
    assert len(graphs) == 26
    assert sum(a.kind == "symint" for graph in graphs for a in graph.arguments) == 8
    swapped = next(graph for graph in graphs if "swapped" in graph.name)
    assert swapped.sources == {"samples/timm/mobilenetv4_conv_aa_large.e230_r384_in12k": ((33, 38),)}
    t5 = next(graph for graph in graphs if graph.name == "gn_hf_google_t5-efficient-tiny")
    assert t5.info is not None and t5.info.model_name
    assert all("Symbol" in graph.constraints for graph in graphs if graph.constraints)


def test_writing_gives_back_what_was_read(shared_dir: Path, tmp_path: Path) -> None:
    for folder in sorted((shared_dir / "graphs").glob("gn_*")):
        graph = read_graph(folder)
        target = tmp_path / folder.name
        write_graph(
            target,
            code=graph.code,
            metas=graph.metas.values(),
            info=graph.info.values if graph.info else {},
            constraints=graph.constraints,
            sources=graph.sources or None,
        )
        again = read_graph(target)
        assert again.arguments == graph.arguments
        assert again.metas == graph.metas
        assert again.info == graph.info and again.sources == graph.sources
        assert (target / "input_meta.py").read_bytes() == b""


def test_metas_are_written_in_the_published_form() -> None:
    weight = TensorMeta(
        name="w_0",
        original_name="L_self_w_",
        shape=(2,),
        dtype="float16",
        device="cuda:0",
        mean=0.12345,
        std=0.0,
        data=(0.5, 1e-9),
        min_val=0,
        max_val=1.0,
    )
    integer = TensorMeta(name="in_0", shape=(), dtype="int64", device="cpu", data=(4,))
    assert format_metas([weight, integer]) == (
        "class Program_weight_tensor_meta_L_self_w_:\n"
        '    name = "w_0"\n'
        '    original_name = "L_self_w_"\n'
        "    shape = [2]\n"
        '    dtype = "torch.float16"\n'
        '    device = "cuda:0"\n'
        "    mean = 0.123\n"
        "    std = 0.000\n"
        "    data = [0.500000, 1e-09]\n"
        "    max_val = 1.0\n"
        "    min_val = 0\n"
        "\n\n"
        "class Program_weight_tensor_meta_in_0:\n"
        '    name = "in_0"\n'
        "    shape = []\n"
        '    dtype = "torch.int64"\n'
        '    device = "cpu"\n'
        "    mean = None\n"
        "    std = None\n"
        "    data = [4]\n"
    )
