"""The native replay must see every difference that could make it wrong."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from pass_bench.runtime.recorded import Expected, Launch, native_replay, pack


@pytest.fixture
def replay():  # type: ignore[no-untyped-def]
    found = native_replay()
    if found is None:
        pytest.skip("no C++ compiler, or a torch without DLPack's C functions")
    return found


def packed(*tensors: torch.Tensor, **others: object) -> bytes:
    layouts = [Expected.of(tensor) for tensor in tensors]
    assert None not in layouts
    return pack(layouts, [tensor.data_ptr() for tensor in tensors], **others)  # type: ignore[arg-type]


def test_the_same_tensors_match(replay) -> None:  # type: ignore[no-untyped-def]
    x, y = torch.randn(2, 3), torch.randn(4)
    expected = packed(x, y)
    for _ in range(3):
        assert replay(expected, x, y)
        assert replay(expected, x.detach(), y.view(4))
        x.add_(1)


def test_any_difference_is_seen(replay) -> None:  # type: ignore[no-untyped-def]
    base = torch.randn(4, 6)
    x, y = base[:2, :3], torch.arange(4)
    expected = packed(x, y)
    assert replay(expected, x, y)
    others = [
        *(x.clone(), base[1:3, :3], base[:2, 1:4], base[:2, :2], base[:3, :3], x.t(), x[0], base[:2, ::2]),
        *(x.view(torch.int32), torch.nn.Parameter(x), x.tolist(), None, torch.empty(0), x.to("meta")),
    ]
    for other in others:
        assert not replay(expected, other, y)
    assert not replay(expected, y, x)
    assert not replay(expected, x, y.view(torch.float64))
    assert not replay(expected, x)
    assert not replay(expected, x, y, y)
    x.t_()
    assert not replay(expected, x, y)


def test_storages_in_use_are_seen(replay) -> None:  # type: ignore[no-untyped-def]
    x, out = torch.randn(3), torch.randn(3)
    address = out.untyped_storage()._cdata
    expected = packed(x, storages=[(address, torch._C._storage_Use_Count(address))])
    assert replay(expected, x)
    view = out[1:]
    assert not replay(expected, x)
    del view
    assert replay(expected, x)


def test_a_launch_that_fails_is_an_error(replay) -> None:  # type: ignore[no-untyped-def]
    launch = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(lambda graph, stream: 719)

    def current(out: Any) -> int:
        out[0] = 5
        return 0

    in_context = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))(current)
    addresses = [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (launch, in_context)]
    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match="launch of a CUDA graph failed with error 719"):
        replay(packed(x, launch=Launch(3, 5, *addresses)), x)
    assert not replay(packed(x, launch=Launch(3, 6, *addresses)), x)  # another context
    assert not replay(packed(x, launch=Launch(3, 5, *addresses)), x[:1])


def test_what_the_native_call_cannot_tell_apart_is_left_to_others() -> None:
    assert Expected.of(torch.tensor(1.0)) is None
    assert Expected.of(torch.randn(4, 4)[:, ::2]) is None  # as the imaginary part of a conjugate lies
    assert Expected.of(torch.view_as_complex(torch.randn(3, 2))) is None
    assert Expected.of(torch.nn.Parameter(torch.randn(3))) is None
    assert Expected.of(torch.randn(3).to("meta")) is None
    assert Expected.of(torch.randn(1, 3)) == Expected((1, 3), (3, 1), (2, 32), (1, 0))
