"""Listings: reading straight-line code, cutting, printing."""

from __future__ import annotations

from pathlib import Path

import pytest

from pass_bench.data import check_model_source, read_graph
from pass_bench.data.records import TensorMeta
from pass_bench.dataset.cut import argument_metas, cut, is_legal, print_code, whole
from pass_bench.dataset.listing import Listing, read_listing
from pass_bench.errors import BadInput

CODE = """
def forward(self, L_x_ : torch.Tensor, L_self_w_ : torch.Tensor):
    l_x_ = L_x_
    l_self_w_ = L_self_w_
    linear = torch.nn.functional.linear(l_x_, l_self_w_, None);  l_x_ = l_self_w_ = None
    linear += 1;  iadd = linear;  linear = None
    chunk = iadd.chunk(2, dim = -1);  iadd = None
    getitem = chunk[0]
    getitem_1 = chunk[1];  chunk = None
    getitem[(slice(None, 2, None),)] = 0;  setitem = getitem
    mul = getitem * getitem_1;  getitem = getitem_1 = None
    return (mul,)
"""


def toy() -> Listing:
    metas = {
        name: TensorMeta(name, (2, 4), "float32", mean=0.0, std=1.0)
        for name in ("L_x_", "L_self_w_", "linear", "iadd", "getitem", "getitem_1", "mul")
    }
    return read_listing(CODE, "toy", metas, {"chunk": "other"})


def test_every_node_becomes_one_statement_with_its_operator() -> None:
    assert toy().operators == (
        "torch.nn.functional.linear",
        "operator.iadd",
        ".chunk",
        "operator.getitem",
        "operator.getitem",
        "operator.setitem",
        "operator.mul",
    )


def test_the_whole_listing_prints_in_the_published_source_spelling() -> None:
    assert print_code(whole(toy())) == (
        "import torch\n"
        "\n"
        "class GraphModule(torch.nn.Module):\n"
        "    def forward(self, in_0, w_0):\n"
        "        tmp_0 = torch.nn.functional.linear(in_0, w_0, None)\n"
        "        tmp_0 += 1\n"
        "        tmp_1 = tmp_0\n"
        "        tmp_0 = None\n"
        "        tmp_2 = tmp_1.chunk(2, dim=-1)\n"
        "        tmp_1 = None\n"
        "        tmp_3 = tmp_2[0]\n"
        "        tmp_4 = tmp_2[1]\n"
        "        tmp_2 = None\n"
        "        tmp_3[slice(None, 2, None),] = 0\n"
        "        tmp_5 = tmp_3\n"
        "        tmp_5 = None\n"
        "        tmp_6 = tmp_3 * tmp_4\n"
        "        tmp_3 = tmp_4 = None\n"
        "        return (tmp_6,)\n"
    )


def test_a_cut_takes_what_it_reads_and_returns_what_is_read_later() -> None:
    part = cut(toy(), 0, 2)
    assert [toy().values[i].name for i in part.arguments] == ["L_x_", "L_self_w_"]
    assert [toy().values[i].name for i in part.outputs] == ["iadd"]
    assert [(m.name, m.original_name) for m in argument_metas(part)] == [
        ("in_0", "L_x_"),
        ("w_0", "L_self_w_"),
    ]


def test_a_tuple_may_not_lie_on_a_boundary() -> None:
    assert not is_legal(toy(), 0, 3)
    assert not is_legal(toy(), 3, 7)
    assert is_legal(toy(), 2, 5)
    with pytest.raises(BadInput, match="chunk is not a tensor"):
        cut(toy(), 0, 3)


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (3, 3), (0, 99)])
def test_a_cut_outside_the_listing_is_bad_input(start: int, end: int) -> None:
    with pytest.raises(BadInput, match="no statements"):
        cut(toy(), start, end)


def test_an_fx_printout_frees_arguments_on_the_same_line() -> None:
    code = print_code(cut(toy(), 0, 2), "fx")
    assert "        tmp_0 = torch.nn.functional.linear(in_0, w_0, None);  in_0 = w_0 = None\n" in code
    assert "        tmp_0 += 1;  tmp_1 = tmp_0;  tmp_0 = None\n" in code


def test_code_that_is_not_straight_line_is_bad_input_with_its_line() -> None:
    with pytest.raises(BadInput, match=r"toy:3: not straight-line"):
        read_listing("\ndef forward(self, x):\n    for i in x: pass\n    return x\n", "toy", {})


def test_all_shared_graphs_are_read_and_printed_again_with_the_same_operators(shared_dir: Path) -> None:
    folders = [path for path in sorted((shared_dir / "graphs").iterdir()) if path.is_dir()]
    assert len(folders) == 26
    for folder in folders:
        graph = read_graph(folder)
        listing = read_listing(graph.code, folder.name, graph.metas)
        part = whole(listing)
        code = print_code(part)
        check_model_source(code, folder / "model.py")
        again = read_listing(code, folder.name, {meta.name: meta for meta in argument_metas(part)})
        assert again.operators == listing.operators
        assert print_code(whole(again)) == code
