"""The native check must see every difference that could make a replay wrong."""

from __future__ import annotations

import pytest
import torch

from pass_bench.runtime.recorded import Expected, native_ready, pack


@pytest.fixture
def ready():  # type: ignore[no-untyped-def]
    found = native_ready()
    if found is None:
        pytest.skip("no C++ compiler, or a torch without DLPack's C functions")
    return found


def packed(*tensors: torch.Tensor, **others: object) -> bytes:
    layouts = [Expected.of(tensor) for tensor in tensors]
    assert None not in layouts
    return pack(layouts, [tensor.data_ptr() for tensor in tensors], **others)  # type: ignore[arg-type]


def test_the_same_tensors_match(ready) -> None:  # type: ignore[no-untyped-def]
    x, y = torch.randn(2, 3), torch.randn(4)
    expected = packed(x, y)
    for _ in range(3):
        assert ready(expected, x, y)
        assert ready(expected, x.detach(), y.view(4))
        x.add_(1)


def test_any_difference_is_seen(ready) -> None:  # type: ignore[no-untyped-def]
    base = torch.randn(4, 6)
    x, y = base[:2, :3], torch.arange(4)
    expected = packed(x, y)
    assert ready(expected, x, y)
    others = [
        *(x.clone(), base[1:3, :3], base[:2, 1:4], base[:2, :2], base[:3, :3], x.t(), x[0], base[:2, ::2]),
        *(x.view(torch.int32), torch.nn.Parameter(x), x.tolist(), None, torch.empty(0), x.to("meta")),
    ]
    for other in others:
        assert not ready(expected, other, y)
    assert not ready(expected, y, x)
    assert not ready(expected, x, y.view(torch.float64))
    assert not ready(expected, x)
    assert not ready(expected, x, y, y)
    x.t_()
    assert not ready(expected, x, y)


def test_storages_in_use_are_seen(ready) -> None:  # type: ignore[no-untyped-def]
    x, out = torch.randn(3), torch.randn(3)
    address = out.untyped_storage()._cdata
    expected = packed(x, storages=[(address, torch._C._storage_Use_Count(address))])
    assert ready(expected, x)
    view = out[1:]
    assert not ready(expected, x)
    del view
    assert ready(expected, x)


def test_what_the_native_call_cannot_tell_apart_is_left_to_others() -> None:
    assert Expected.of(torch.tensor(1.0)) is None
    assert Expected.of(torch.randn(4, 4)[:, ::2]) is None  # as the imaginary part of a conjugate lies
    assert Expected.of(torch.view_as_complex(torch.randn(3, 2))) is None
    assert Expected.of(torch.nn.Parameter(torch.randn(3))) is None
    assert Expected.of(torch.randn(3).to("meta")) is None
    assert Expected.of(torch.randn(1, 3)) == Expected((1, 3), (3, 1), (2, 32), (1, 0))
