"""input_tensor_constraints.py: its expressions, at its example values, are the sizes of the arguments."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.constraints import print_constraints
from pass_bench.dataset.cut import cut
from pass_bench.dataset.listing import Listing, read_listing
from pass_bench.dataset.store import Traced, delta_of
from pass_bench.dataset.vary import ORIGINAL, resized, sizes_of


def words(batch: int, sequence: int) -> Listing:
    """Sizes that follow nothing, one of the two, both as a product, and both with one of them shifted."""
    code = """
def forward(self, L_x_, L_mask_, L_flat_, L_next_, L_self_w_):
    add = L_x_ + L_mask_
    cat = torch.cat([L_flat_, L_next_])
    linear = torch._C._nn.linear(add, L_self_w_)
    return (linear, cat)
"""
    shapes = {
        "L_x_": (batch, sequence, 8),
        "L_mask_": (sequence, 1),
        "L_flat_": (2 * batch * sequence, 8),
        "L_next_": (batch * (sequence - 1), 8),
        "L_self_w_": (8, 8),
        "add": (batch, sequence, 8),
        "cat": (2 * batch * sequence + batch * (sequence - 1), 8),
        "linear": (batch, sequence, 8),
    }
    metas = {name: TensorMeta(name, shape, "float32", mean=0.0, std=1.0) for name, shape in shapes.items()}
    return read_listing(code, "toy", metas)


@pytest.mark.parametrize("dim", [0, 3, 8, ORIGINAL])
def test_expressions_give_the_shapes_at_the_example_values(dim: int) -> None:
    base = words(1, 64)
    by_batch, by_sequence = delta_of(base, words(3, 64)), delta_of(base, words(1, 96))
    assert by_batch is not None and by_sequence is not None
    graph = Traced(base, (1, 64), None, (3, by_batch), (96, by_sequence))
    listing = resized(graph, dim)
    assert listing is not None
    scope: dict[str, Any] = {}
    exec(print_constraints(graph, cut(listing, 0, 3), sizes_of(graph, dim)), scope)
    example = scope["dynamic_dim_constraint_symbol2example_value"]
    found = {
        name: tuple(int(sympy.sympify(size).subs(example)) for size in dims)
        for dims, name in scope["dynamic_dim_constraint_input_shapes"]
    }
    wanted = words(*sizes_of(graph, dim))
    assert found == {v.name: v.meta.shape for v in wanted.values if v.is_argument and v.meta}
    text = {name: dims for dims, name in scope["dynamic_dim_constraint_input_shapes"]}
    batch, sequence = scope["S0"], scope["S1"]
    assert text["L_flat_"][0] == 2 * batch * sequence
    assert text["L_next_"][0] == batch * (sequence - 1)
    assert text["L_self_w_"] == [8, 8]
