"""One native call that replays a recording, if it can be replayed for these inputs.

They must lie where they were recorded, with the same layout, the stream must be that of the replay before,
and no output of an earlier replay may be in use. Whether a tensor requires grad is not seen, which only
matters where gradients are recorded.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from pass_bench.errors import HarnessFailure
from pass_bench.kernels.cpp_stub import DLPACK_CODES
from pass_bench.kernels.cuda_driver import driver
from pass_bench.kernels.extension import CompilerFailed, build_extension

HEAD, STORAGE, TENSOR = "@qqqiiQQQQ", "@Qq", "@qiiiBBH"  # as recorded.cpp has them
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


@dataclass(frozen=True)
class Launch:
    """A CUDA graph that the driver can launch by itself: addresses of a CUgraphExec and of its CUcontext,
    and of the two functions of the driver that this takes."""

    graph: int
    context: int
    launch: int
    current: int

    @staticmethod
    def of(graph: int) -> Launch:
        """The launch of an instantiated graph in the current context; raises HarnessFailure."""
        context = ctypes.c_void_p()
        if driver().cuCtxGetCurrent(ctypes.byref(context)) or not context.value:
            raise HarnessFailure("no current CUDA context")
        functions = (driver().cuGraphLaunch, driver().cuCtxGetCurrent)
        launch, current = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
        return Launch(graph, context.value, launch, current)


def pack(
    expected: Sequence[Expected],
    addresses: Sequence[int],
    storages: Sequence[tuple[int, int]] = (),
    device: int | None = None,
    stream: int = 0,
    launch: Launch | None = None,
) -> bytes:
    """What the native call compares with: inputs and their addresses, storages and their idle reference
    counts; and what it launches then, if anything. Without a `device` it looks at no stream.
    """
    graph = (0, 0, 0, 0) if launch is None else (launch.graph, launch.context, launch.launch, launch.current)
    head = (len(expected), len(storages), stream, device is not None, device or 0, *graph)
    packed = [struct.pack(HEAD, *head)]
    packed += [struct.pack(STORAGE, *storage) for storage in storages]
    for layout, address in zip(expected, addresses, strict=True):
        packed.append(struct.pack(TENSOR, address, *layout.device, len(layout.shape), *layout.code, 1))
        packed.append(struct.pack(f"@{2 * len(layout.shape)}q", *layout.shape, *layout.stride))
    return b"".join(packed)


@functools.cache
def native_replay() -> Callable[..., bool] | None:
    """`replay(packed, *tensors)`: whether the recording can be replayed, which is done if a launch is packed.

    None without a compiler, or where torch is not as it expects.
    """
    try:
        module = build_extension("recorded", Path(__file__).with_name("recorded.cpp").read_text())
    except (CompilerFailed, HarnessFailure, OSError):
        return None
    replay: Callable[..., bool] = module.replay
    return replay if _tells_tensors_apart(replay) and _counts_references(replay) else None


def _tells_tensors_apart(replay: Callable[..., bool]) -> bool:
    probe = torch.zeros(2, 3)
    layout = Expected.of(probe)
    assert layout is not None
    packed = pack([layout], [probe.data_ptr()])
    others = (torch.zeros(2, 3), probe.t(), probe.view(torch.int32), torch.nn.Parameter(probe), None)
    return replay(packed, probe) and not any(replay(packed, other) for other in others)


def _counts_references(replay: Callable[..., bool]) -> bool:
    probe = torch.zeros(4)
    address = probe.untyped_storage()._cdata
    held = []
    for _ in range(4):
        count = torch._C._storage_Use_Count(address)
        if not replay(pack([], [], [(address, count)])) or replay(pack([], [], [(address, count - 1)])):
            return False
        held.append(probe.view(2, 2))
    del held
    return replay(pack([], [], [(address, count - 3)]))
