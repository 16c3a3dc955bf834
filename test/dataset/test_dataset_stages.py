"""Stages on hand-made listings: fold, decompose, vary, canonical texts, group, split, constraints."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pass_bench.data.records import TensorMeta
from pass_bench.dataset.canonical import canonical_text, skeleton, uid_of
from pass_bench.dataset.constraints import print_constraints
from pass_bench.dataset.cut import cut, whole
from pass_bench.dataset.decompose import fusible_runs, sole_ops, typical_spans
from pass_bench.dataset.fold import fold
from pass_bench.dataset.group import Group, bigrams, choose_eval, group, split, transition_costs
from pass_bench.dataset.listing import Listing, read_listing
from pass_bench.dataset.plan import PlannedGraph
from pass_bench.dataset.store import ModelRecord, Traced, apply_delta, delta_of, read_record, write_record
from pass_bench.dataset.vary import at_sizes, in_dtype


def attention(batch: int = 1, sequence: int = 8, dtype: str = "float32", name: str = "x") -> Listing:
    """One statement of every kind that sizes and types change."""
    code = f"""
def forward(self, L_{name}_, L_self_w_):
    linear = torch._C._nn.linear(L_{name}_, L_self_w_)
    view = linear.view({batch}, {sequence}, 2, 4)
    arange = torch.arange({sequence - 1})
    merged = view.reshape({batch * sequence}, 8)
    fill = merged.masked_fill(arange[:1] > 0, {-65504.0 if dtype == "float16" else -3.4e38})
    up = fill.to(torch.float32)
    chunk = up.chunk(2, dim=-1)
    one = chunk[0]
    two = chunk[1]
    mul = one * two
    return (mul,)
"""
    shapes = {
        f"L_{name}_": (batch, sequence, 8),
        "L_self_w_": (8, 8),
        "linear": (batch, sequence, 8),
        "view": (batch, sequence, 2, 4),
        "merged": (batch * sequence, 8),
        "fill": (batch * sequence, 8),
    }
    metas = {key: TensorMeta(key, shape, dtype, mean=0.0, std=1.0) for key, shape in shapes.items()}
    metas["arange"] = TensorMeta("arange", (sequence - 1,), "int64", min_val=0, max_val=sequence - 2)
    for key in ("up", "one", "two", "mul"):
        metas[key] = TensorMeta(
            key, (batch * sequence, 8 if key == "up" else 4), "float32", mean=0.0, std=1.0
        )
    return read_listing(code, "toy", metas, {"chunk": "other"})


def traced() -> Traced:
    base = attention()
    by_batch, by_sequence = delta_of(base, attention(batch=3)), delta_of(base, attention(sequence=12))
    half = delta_of(base, attention(dtype="float16"))
    assert by_batch is not None and by_sequence is not None and half is not None
    return Traced(base, (1, 8), half, (3, by_batch), (12, by_sequence))


def test_sizes_follow_batch_and_sequence_and_their_product() -> None:
    listing, wanted = at_sizes(traced(), 5, 16), attention(batch=5, sequence=16)
    assert listing is not None and listing.statements == wanted.statements
    assert [v.meta and v.meta.shape for v in listing.values] == [
        v.meta and v.meta.shape for v in wanted.values
    ]


def test_sizes_that_no_capture_varied_are_refused() -> None:
    assert at_sizes(Traced(attention(), (1, 8)), 2, 8) is None
    assert at_sizes(Traced(attention(), (1, 8)), 1, 8) == attention()


def test_a_capture_in_half_precision_says_how_the_code_changes() -> None:
    half = in_dtype(traced(), attention(batch=2), "float16")
    assert half is not None
    assert half.statements == attention(batch=2, dtype="float16").statements
    assert [v.meta.dtype for v in half.values[:2] if v.meta] == ["float16", "float16"]
    brain = in_dtype(traced(), attention(), "bfloat16")
    assert brain is not None and "-3.3895313892515355e+38" in brain.statements[4].text


def test_without_such_a_capture_code_that_names_float32_is_not_cast() -> None:
    assert in_dtype(Traced(attention()), attention(), "float16") is None


def test_a_delta_is_the_way_from_one_capture_to_the_other() -> None:
    base, other = attention(), attention(batch=3)
    delta = delta_of(base, other)
    assert delta is not None and apply_delta(base, delta) == other
    assert delta.shapes[0] == (3, 8, 8) and delta.texts[1] == "_v2_.view(3, 8, 2, 4)"
    assert (
        delta_of(base, read_listing("def forward(self, x):\n    y = x + 1\n    return (y,)", "z", {})) is None
    )


def test_a_record_survives_the_disk(tmp_path) -> None:  # type: ignore[no-untyped-def]
    record = ModelRecord("lib", "toy", "Toy", graphs=(traced(),), parameters=64, seconds=0.5)
    write_record(record, tmp_path / "a" / "toy.json.zst")
    assert read_record(tmp_path / "a" / "toy.json.zst") == record
    assert not list((tmp_path / "a").glob("*.part"))


def test_names_do_not_count_but_constants_do_for_the_uid_and_not_for_the_skeleton() -> None:
    one, two = whole(attention()), whole(attention(name="other"))
    assert canonical_text(one) == canonical_text(two) and uid_of(one) == uid_of(two)
    larger = whole(attention(batch=4))
    assert uid_of(larger) != uid_of(one) and skeleton(larger) == skeleton(one)
    assert skeleton(whole(attention(dtype="float16"))) == skeleton(one)
    assert skeleton(cut(attention(), 0, 3)) != skeleton(one)


def test_sole_ops_keep_a_tuple_with_its_elements() -> None:
    spans = list(sole_ops(attention()))
    assert (6, 9) in spans and (7, 8) not in spans and (0, 1) in spans and (9, 10) in spans


def test_fusible_runs_end_where_a_kernel_is_added() -> None:
    kernels = [[0], [4, 5], [9]]  # linear alone; fill and up together; mul
    assert list(fusible_runs(attention(), kernels, 10)) == [(0, 4), (4, 9)]
    assert list(fusible_runs(attention(), kernels, 4)) == [(0, 4)]


def test_folding_finds_the_sequence_that_two_models_share() -> None:
    shared = ["a", "b", "c", "d", "e"]
    found = fold([["x", *shared, "y"], ["p", *shared, "q", *shared]])
    long = {(o.listing, o.start, o.end) for o in found if o.end - o.start == 5}
    assert long == {(0, 1, 6), (1, 1, 6), (1, 7, 12)}
    assert fold([shared, ["z"]]) == ()
    assert fold([]) == ()


def test_folding_a_run_of_one_operator_does_not_overlap() -> None:
    found = fold([["a"] * 9, ["a"] * 9])
    assert all(0 <= o.start < o.end <= 9 for o in found)


def test_typical_spans_are_legal_parts() -> None:
    spans = typical_spans([attention(), attention(batch=2)])
    assert spans and all(end - start >= 4 for found in spans.values() for start, end in found)


def test_constraints_name_the_symbols_a_size_follows() -> None:
    text = print_constraints(traced(), cut(traced().listing, 0, 2))
    assert '([S0, S1, 8], "L_x_"),' in text and '([8, 8], "L_self_w_"),' in text
    assert "dynamic_dim_constraint_symbol2example_value = {S0: 1, S1: 8}" in text
    assert print_constraints(Traced(attention()), whole(attention())) == ""


def planned(uid: str, operators: tuple[str, ...], **changes: object) -> PlannedGraph:
    fields: dict[str, object] = {
        "uid": uid,
        "skeleton": "-".join(operators),
        "category": "fusible_subgraphs",
        "dtype": "float32",
        "dim": 9,
        "library": "lib",
        "model": "toy",
        "tag": "nlp",
        "start": 0,
        "end": len(operators),
        "operators": operators,
        "code": "",
        "metas": (),
        "constraints": "",
    }
    return PlannedGraph(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_group_keeps_types_and_sizes_varied() -> None:
    graphs = [
        planned(f"{d}{t}{i}", ("a", "b"), dtype=t, dim=d)
        for i in range(5)
        for d in (1, 9)
        for t in ("f", "h")
    ]
    (one,) = group(graphs, most=4)
    assert {(g.dtype, g.dim) for g in one.graphs} == {("f", 1), ("f", 9), ("h", 1), ("h", 9)}


def test_transition_costs_are_minus_log_probabilities() -> None:
    groups = group([planned("1", ("a", "b")), planned("2", ("a", "c")), planned("3", ("a", "c", "d"))])
    costs = transition_costs(groups)
    assert costs[("a", "b")] == pytest.approx(math.log(3))
    assert costs[("<start>", "a")] == pytest.approx(0.0)
    assert bigrams(("a", "b")) == [("<start>", "a"), ("a", "b"), ("b", "<end>")]


def test_the_rare_sequence_is_chosen_first_and_what_is_covered_last() -> None:
    common = [planned(f"c{i}", ("a", "b", "c"), skeleton=f"c{i}") for i in range(9)]
    groups = group([*common, planned("r", ("a", "z", "y"))])
    chosen = choose_eval(groups, 2)
    assert chosen[0].operators == ("a", "z", "y") and chosen[1].operators == ("a", "b", "c")


def test_the_choice_is_the_same_in_every_process() -> None:
    """Sets of words have another order in every process, and sums of floats depend on the order."""
    code = """
from itertools import permutations
from test_dataset_stages import planned
from pass_bench.dataset.group import choose_eval, group
words = [tuple("a" + "".join(loops)) for loops in permutations(["ba", "cca", "da", "eda", "fa", "gha"])]
words += [("a", *"bcdefgh"[:n], *"xyz"[n % 3 :]) for n in range(1, 8)]
print([one.skeleton for one in choose_eval(group(planned("".join(w), w) for w in words), 200)])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    found = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    ]
    assert len(found[0]) > 2000
    assert found[0] == found[1] == found[2]


def test_nothing_of_an_evaluation_sample_is_in_train() -> None:
    graphs = [planned(f"f{i}", ("a", "b", f"op{i}")) for i in range(6)]
    graphs += [planned(f"t{i}", ("a", "b", f"op{i}"), category="typical_subgraphs") for i in range(6)]
    graphs += [planned("f0", ("s",), category="sole_op_subgraphs")]
    graphs += [planned(f"w{i}", ("a", "b", f"op{i}"), skeleton=f"wired otherwise {i}") for i in range(6)]
    parts = split(group(graphs), 2)
    chosen = [one for groups in parts.evaluation.values() for one in groups]
    kept = [one for groups in parts.train.values() for one in groups]
    assert len(chosen) == 4 and len({one.skeleton for one in chosen}) == 4
    assert not {one.skeleton for one in chosen} & {one.skeleton for one in kept}
    assert len({one.operators for one in chosen}) == 4
    assert not {one.operators for one in chosen} & {one.operators for one in kept}
    uids = {graph.uid for one in chosen for graph in one.graphs}
    assert not uids & {graph.uid for one in kept for graph in one.graphs}
    assert all(isinstance(one, Group) for one in kept)
