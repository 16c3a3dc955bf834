"""One native call that says whether a recording can be replayed for these inputs.

They must lie where they were recorded, with the same layout, the stream must be that of the replay before,
and no output of an earlier replay may be in use. Whether a tensor requires grad is not seen, which only
matters where gradients are recorded.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.cpp_stub import DLPACK_CODES
from pass_bench.kernels.extension import CompilerFailed, build_extension

HEAD, STORAGE, TENSOR = "@qqqii", "@Qq", "@qiiiBBH"  # as recorded.cpp has them
DEVICES = {"cpu": 1, "cuda": 2}


@dataclass(frozen=True)
class Expected:
    """A tensor's layout, its address left open."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    code: tuple[int, int]
    device: tuple[int, int]

    @staticmethod
    def of(tensor: torch.Tensor) -> Expected | None:
        """The layout of a plain tensor; None where the native call could not tell it from another one's.

        A real tensor with the negative bit set is a view of every other number.
        """
        code = DLPACK_CODES.get(str(tensor.dtype).removeprefix("torch."))
        kind = DEVICES.get(tensor.device.type)
        strides = [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if step]
        told_apart = not tensor.is_floating_point() or any(step % 2 for step in strides)
        if type(tensor) is not torch.Tensor or code is None or kind is None or not told_apart:
            return None
        return Expected(tuple(tensor.shape), tensor.stride(), code, (kind, tensor.device.index or 0))


def pack(
    expected: Sequence[Expected],
    addresses: Sequence[int],
    storages: Sequence[tuple[int, int]] = (),
    device: int | None = None,
    stream: int = 0,
) -> bytes:
    """What `ready` compares with: inputs and their addresses, storages and their idle reference counts.

    Without a `device` it looks at no stream.
    """
    packed = [struct.pack(HEAD, len(expected), len(storages), stream, device is not None, device or 0)]
    packed += [struct.pack(STORAGE, *storage) for storage in storages]
    for layout, address in zip(expected, addresses, strict=True):
        packed.append(struct.pack(TENSOR, address, *layout.device, len(layout.shape), *layout.code, 1))
        packed.append(struct.pack(f"@{2 * len(layout.shape)}q", *layout.shape, *layout.stride))
    return b"".join(packed)


@functools.cache
def native_ready() -> Callable[..., bool] | None:
    """`ready(packed, *tensors)`; None without a compiler, or where torch is not as it expects."""
    try:
        module = build_extension("recorded", Path(__file__).with_name("recorded.cpp").read_text())
    except (CompilerFailed, HarnessFailure, OSError):
        return None
    ready: Callable[..., bool] = module.ready
    return ready if _tells_tensors_apart(ready) and _counts_references(ready) else None


def _tells_tensors_apart(ready: Callable[..., bool]) -> bool:
    probe = torch.zeros(2, 3)
    layout = Expected.of(probe)
    assert layout is not None
    packed = pack([layout], [probe.data_ptr()])
    others = (torch.zeros(2, 3), probe.t(), probe.view(torch.int32), torch.nn.Parameter(probe), None)
    return ready(packed, probe) and not any(ready(packed, other) for other in others)


def _counts_references(ready: Callable[..., bool]) -> bool:
    probe = torch.zeros(4)
    address = probe.untyped_storage()._cdata
    held = []
    for _ in range(4):
        count = torch._C._storage_Use_Count(address)
        if not ready(pack([], [], [(address, count)])) or ready(pack([], [], [(address, count - 1)])):
            return False
        held.append(probe.view(2, 2))
    del held
    return ready(pack([], [], [(address, count - 3)]))
