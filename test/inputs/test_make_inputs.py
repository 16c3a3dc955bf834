"""Replay rules bit for bit, and what the other regimes keep and change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pass_bench.data import Graph, TensorMeta, read_graph
from pass_bench.data.records import Argument
from pass_bench.errors import BadInput
from pass_bench.inputs import draw_seeds, make_inputs, replay


def meta(name: str, shape: tuple[int, ...] = (4,), dtype: str = "float32", **fields: object) -> TensorMeta:
    class_name = str(fields.pop("class_name", f"Program_weight_tensor_meta_{name}"))
    return TensorMeta(name=name, shape=shape, dtype=dtype, class_name=class_name, **fields)  # type: ignore[arg-type]


def graph_of(*metas: TensorMeta, symints: tuple[str, ...] = ()) -> Graph:
    arguments = tuple(Argument(m.name, "symint" if m.name in symints else "tensor") for m in metas)
    return Graph(Path("g"), "g", "", arguments, {m.name: m for m in metas})


def test_order_is_alphabetical_by_class_name_from_one_stream() -> None:
    a = meta("in_0", (2, 3), mean=1.0, std=2.0, class_name="Program_weight_tensor_meta_b")
    b = meta("in_1", (5,), mean=0.5, std=0.25, class_name="Program_weight_tensor_meta_a")
    np.random.seed(123)
    first = np.random.randn(5) * 0.25 * 0.2 + 0.5
    second = np.random.randn(2, 3) * 2.0 * 0.2 + 1.0
    made = make_inputs(graph_of(a, b))
    assert torch.equal(made[0], torch.from_numpy(second).to(torch.float32))
    assert torch.equal(made[1], torch.from_numpy(first).to(torch.float32))


def test_metas_without_an_argument_are_drawn_too() -> None:
    unused, used = meta("a", (3,), std=1.0), meta("b", (3,), std=1.0)
    graph = Graph(Path("g"), "g", "", (Argument("b", "tensor"),), {"a": unused, "b": used})
    np.random.seed(123)
    np.random.randn(3)
    assert torch.equal(make_inputs(graph)[0], torch.from_numpy(np.random.randn(3) * 0.2).float())


def test_numpy_global_state_is_left_alone() -> None:
    np.random.seed(7)
    before = np.random.get_state()[1].copy()  # type: ignore[index,union-attr]
    make_inputs(graph_of(meta("a", std=1.0)))
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


def test_integers_with_both_bounds_beat_data() -> None:
    np.random.seed(123)
    expected = np.random.randint(2, 10, size=(3, 2))
    made = make_inputs(graph_of(meta("a", (3, 2), "int32", min_val=2, max_val=9, data=(1,) * 6)))[0]
    assert made.dtype == torch.int32 and made.tolist() == expected.tolist()


def test_data_is_reshaped_and_kept_even_where_not_finite() -> None:
    made = make_inputs(graph_of(meta("a", (2, 2), "float16", data=(1, 2.5, float("-inf"), 0), min_val=0)))[0]
    assert made.dtype == torch.float16 and made.tolist() == [[1, 2.5], [float("-inf"), 0]]


def test_uint8_with_bounds_is_not_drawn_as_an_integer_range() -> None:
    made = make_inputs(graph_of(meta("a", (4,), "uint8", min_val=3, max_val=9)))[0]
    assert made.tolist() == [3, 3, 3, 3]  # 0.02 * randn, cast, clamped


def test_bool_also_without_dimensions() -> None:
    np.random.seed(123)
    expected = np.random.rand(2, 3) > 0.5
    assert make_inputs(graph_of(meta("a", (2, 3), "bool")))[0].tolist() == expected.tolist()
    np.random.seed(123)
    scalar = make_inputs(graph_of(meta("a", (), "bool")))[0]
    assert scalar.shape == () and bool(scalar) == bool(np.random.rand() > 0.5)


def test_missing_statistics_and_constants() -> None:
    np.random.seed(123)
    expected = torch.from_numpy(np.random.randn(4) * 0.1 * 0.2).float()
    assert torch.equal(make_inputs(graph_of(meta("a")))[0], expected)
    assert make_inputs(graph_of(meta("a", (2,), std=0.0, mean=1.5)))[0].tolist() == [1.5, 1.5]
    assert make_inputs(graph_of(meta("a", (2,), "int64")))[0].tolist() == [0, 0]
    scalar = make_inputs(graph_of(meta("a", (), mean=3.0, std=0.0)))[0]
    assert scalar.shape == () and scalar.item() == 3.0
    assert make_inputs(graph_of(meta("a", (0, 3), std=1.0)))[0].shape == (0, 3)


def test_bfloat16_is_cast_from_float64_by_torch() -> None:
    np.random.seed(123)
    expected = torch.from_numpy(np.random.randn(1000) * 0.2 + 0.1).to(torch.bfloat16)
    made = make_inputs(graph_of(meta("a", (1000,), "bfloat16", mean=0.1, std=1.0)))[0]
    assert torch.equal(made, expected)


def test_bounds_clamp_one_by_one() -> None:
    made = make_inputs(graph_of(meta("a", (1000,), mean=0.0, std=5.0, min_val=0)))[0]
    assert made.min() == 0 and made.max() > 2
    made = make_inputs(graph_of(meta("a", (1000,), mean=0.0, std=5.0, min_val=-0.5, max_val=0.25)))[0]
    assert made.min() == -0.5 and made.max() == 0.25


def test_what_is_not_finite_becomes_small() -> None:
    np.random.seed(123)
    np.random.randn(3)
    small = torch.from_numpy(np.random.randn(3) * 0.01).float()
    assert torch.equal(make_inputs(graph_of(meta("a", (3,), mean=float("nan"), std=1.0)))[0], small)
    made = make_inputs(graph_of(meta("a", (1000,), "float16", mean=0.0, std=400000.0)))[0]
    assert torch.isfinite(made).all() and made.abs().max() == 100


def test_symint_is_an_int() -> None:
    made = make_inputs(graph_of(meta("s0", (), "int64", data=(4,)), meta("a"), symints=("s0",)))
    assert made[0] == 4 and type(made[0]) is int


def test_data_that_does_not_fit_is_bad_input() -> None:
    with pytest.raises(BadInput, match="does not fit int8"):
        make_inputs(graph_of(meta("a", (1,), "int8", data=(1000,))))
    with pytest.raises(BadInput, match="range"):
        make_inputs(graph_of(meta("a", (1,), "int64", min_val=0, max_val=2**70)))


def test_random_keeps_what_stands_for_itself() -> None:
    metas = (
        meta("s0", (), "int64", data=(4,)),
        meta("scalar", (), mean=2.0, std=0.0),
        meta("literal", (3,), data=(1.0, 2.0, 3.0)),
        meta("index", (5,), "int64"),
        meta("mask", (2, 2), mean=-3.4e38, std=0.0),
    )
    recorded = make_inputs(graph_of(*metas, symints=("s0",)))
    drawn = make_inputs(graph_of(*metas, symints=("s0",)), "random", seed=5)
    assert recorded[0] == drawn[0] == 4
    for was, now in zip(recorded[1:], drawn[1:], strict=True):
        assert torch.equal(was, now)


def test_random_spreads_constants_and_keeps_domains() -> None:
    metas = (
        meta("zeros", (1000,), mean=0.0, std=0.0),
        meta("ones", (1000,), mean=1.0, std=0.0),
        meta("variance", (1000,), mean=0.0, std=1.0, min_val=0),
        meta("share", (1000,), mean=0.4, std=0.3, min_val=0.0, max_val=1.0),
        meta("ids", (1000,), "int64", min_val=3, max_val=7),
        meta("flag", (1000,), "bool"),
        meta("half", (1000,), "float16", mean=0.0, std=1e6),
        meta("negative", (1000,), mean=-2.0, std=1.0),
    )
    zeros, ones, variance, share, ids, flag, half, negative = make_inputs(graph_of(*metas), "random", seed=1)
    assert zeros.std() > 0.05 and zeros.min() < 0 < zeros.max()
    assert ones.std() > 0.1 and ones.min() >= 0.5 and ones.max() <= 1.5
    assert variance.min() >= 0 and (variance == 0).float().mean() < 0.01
    assert share.min() >= 0 and share.max() <= 1 and (share == 0).float().mean() < 0.01
    assert set(ids.tolist()) == {3, 4, 5, 6, 7}
    assert 0.4 < flag.float().mean() < 0.6
    assert torch.isfinite(half).all()
    assert negative.max() <= 0


def test_a_variance_without_bounds_stays_positive() -> None:
    wide = meta("w_3", (512,), mean=0.1, std=5.0, original_name="L_self_buffers_running_var_")
    few = meta("w_4", (64,), mean=9.455, std=14.731)
    assert all((x >= 0).all() for x in make_inputs(graph_of(wide, few), "random", seed=1))


def test_random_differs_by_seed_and_is_repeatable() -> None:
    graph = graph_of(meta("a", (100,), std=1.0), meta("b", (100,), std=1.0))
    one, again, other = (make_inputs(graph, "random", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one[0], again[0])
    assert not torch.equal(one[0], other[0])
    assert not torch.equal(one[0], one[1])


def test_draw_seeds_differ() -> None:
    seeds = draw_seeds(1024, 8)
    assert len(set(seeds)) == 8 and all(0 <= seed < 2**63 for seed in seeds)
    assert draw_seeds(1024, 8) == seeds and draw_seeds(1025, 1)[0] not in seeds


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4)])
def test_special_inputs_are_strided_and_offset(shape: tuple[int, ...], dtype: str) -> None:
    made = make_inputs(graph_of(meta("a", shape, dtype, std=1.0)), "special", seed=3)[0]
    assert made.shape == shape and made.storage_offset() == 1
    assert made.is_contiguous() == (made.numel() <= 1)


def test_special_magnitudes() -> None:
    made = make_inputs(graph_of(meta("a", (1000,), std=1.0)), "special", seed=3)[0].abs()
    assert made.max() > 30 and made.median() < 1


def test_real_graphs_get_finite_inputs_in_their_shapes(shared_dir: Path) -> None:
    for folder in sorted((shared_dir / "graphs").glob("gn_*")):
        graph = read_graph(folder)
        if sum(wanted.numel for wanted in graph.metas.values()) > 500_000:
            continue  # large weights take seconds and show nothing new
        for regime in ("recorded", "random", "special"):
            made = make_inputs(graph, regime, seed=9)  # type: ignore[arg-type]
            for argument, tensor in zip(graph.arguments, made, strict=True):
                wanted = graph.metas[argument.name]
                if argument.kind == "symint":
                    assert isinstance(tensor, int)
                    continue
                assert isinstance(tensor, torch.Tensor)
                assert tuple(tensor.shape) == wanted.shape and str(tensor.dtype) == f"torch.{wanted.dtype}"
                assert wanted.data is not None or torch.isfinite(tensor.float()).all()


def test_replay_returns_every_meta() -> None:
    assert set(replay([meta("a"), meta("b")])) == {"a", "b"}
