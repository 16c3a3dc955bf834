"""Tensors between processes: raw bytes in a sealed memory file, a typed header beside it; never pickle."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pass_bench.worker.descriptors import SEALS
from pass_bench.worker.messages import Leaf, Payload
from pass_bench.worker.protocol import ProtocolError

ALIGNMENT = 64
MAX_DEPTH = 20
DTYPES = {
    str(value).removeprefix("torch."): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype) and not str(value).startswith(("torch.q", "torch.bits"))
}
PLAIN = {int: "int", float: "float", bool: "bool", type(None): "none"}


def leaves_of(outputs: object, name: str = "output", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield every leaf of nested tuples, lists and dicts with its path ("output[0][1]").

    A graph that returns one bare value is treated like one that returns a 1-tuple of it.
    """
    if depth == 0 and not isinstance(outputs, tuple | list | dict):
        outputs = (outputs,)
    if depth > MAX_DEPTH:
        yield name, "nested too deeply"
    elif isinstance(outputs, tuple | list):  # without code that a class of its own may have
        items = tuple.__iter__(outputs) if isinstance(outputs, tuple) else list.__iter__(outputs)
        for place, value in enumerate(items):
            yield from leaves_of(value, f"{name}[{place}]", depth + 1)
    elif isinstance(outputs, dict):
        for key, value in dict.items(outputs):
            yield from leaves_of(value, f"{name}[{str(key)[:40]!r}]", depth + 1)
    else:
        yield name, outputs


def plain_tensor(value: object) -> bool:
    """Whether a value is an ordinary strided tensor, not a subclass that could compute later."""
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout == torch.strided  # type: ignore[attr-defined]


def value_nbytes(value: object) -> int:
    """Return the bytes that a value's elements need, 0 for what is not a tensor."""
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


class Writer:
    """Puts tensors into a memory file; `close` seals it and returns its descriptor."""

    def __init__(self, budget_bytes: int):
        self._budget = budget_bytes
        self._descriptor = os.memfd_create("passnet-payload", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._end = 0

    def leaf(self, where: str, value: object) -> Leaf:
        """Write one value, return its header."""
        where = where[:500]
        if isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat):
            return Leaf(where=where, type="other", value=type(value).__name__)
        if type(value) in PLAIN:
            return Leaf(where=where, type=PLAIN[type(value)], value=repr(value)[:400])  # type: ignore[arg-type]
        if not isinstance(value, torch.Tensor):
            return Leaf(where=where, type="other", value=type(value).__name__[:100])
        if not plain_tensor(value):
            kind = type(value).__name__ if type(value) is not torch.Tensor else f"{value.layout} tensor"
            return Leaf(where=where, type="other", value=kind[:100])
        dtype = str(value.dtype).removeprefix("torch.")
        shape = tuple(int(size) for size in value.shape)
        nbytes = value_nbytes(value)
        if nbytes > self._budget:
            return Leaf(where=where, type="tensor", dtype=dtype, shape=shape, nbytes=nbytes, omitted=True)
        self._budget -= nbytes
        offset = -(-self._end // ALIGNMENT) * ALIGNMENT
        data = value.detach().resolve_conj().resolve_neg().to("cpu").contiguous()
        if nbytes:
            view = memoryview(data.reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
            written = 0
            while written < nbytes:
                written += os.pwrite(self._descriptor, view[written : written + (1 << 30)], offset + written)
        self._end = offset + nbytes
        return Leaf(where=where, type="tensor", dtype=dtype, shape=shape, offset=offset, nbytes=nbytes)

    def close(self) -> tuple[int, int]:
        """Seal the file; return its descriptor, which the caller closes, and its size."""
        os.ftruncate(self._descriptor, self._end)
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, SEALS)
        return self._descriptor, self._end


def write_payload(
    outputs: object, inputs: Sequence[object], changed: Sequence[int], budget_bytes: int
) -> tuple[Payload, int]:
    """Pack the outputs and the changed inputs of one run; the caller closes the descriptor."""
    writer = Writer(budget_bytes)
    try:
        headers = tuple(writer.leaf(where, value) for where, value in leaves_of(outputs))
        effects = tuple(writer.leaf(f"input[{place}]", inputs[place]) for place in changed)
    finally:
        descriptor, total = writer.close()
    return Payload(outputs=headers, effects=effects, total_bytes=total), descriptor


def unreadable(name: str) -> object:
    """Return a stand-in for a value without a plain form, of a type of that name; equal to nothing."""
    return type(name if name.isidentifier() else "unknown", (), {})()


def read_leaf(leaf: Leaf, descriptor: int | None, device: str) -> Any:
    """Copy one value out of a payload onto a device; raises ProtocolError where header and bytes disagree."""
    if leaf.type == "none":
        return None
    if leaf.type in ("int", "float", "bool"):
        return _plain(leaf)
    if leaf.type == "other":
        return unreadable(leaf.value)
    dtype = DTYPES.get(leaf.dtype)
    if dtype is None:
        raise ProtocolError(f"{leaf.where}: unknown dtype {leaf.dtype[:40]!r}")
    if leaf.nbytes != math.prod(leaf.shape) * dtype.itemsize:
        raise ProtocolError(f"{leaf.where}: {leaf.nbytes} bytes do not fit shape {list(leaf.shape)}")
    if leaf.omitted:
        return torch.empty(leaf.shape, dtype=dtype, device="meta")
    if leaf.nbytes == 0:
        return torch.empty(leaf.shape, dtype=dtype, device=device)
    if descriptor is None:
        raise ProtocolError(f"{leaf.where}: no bytes came with the message")
    if leaf.offset + leaf.nbytes > os.fstat(descriptor).st_size:
        raise ProtocolError(f"{leaf.where}: its bytes lie outside the file")
    data = torch.empty(leaf.nbytes, dtype=torch.uint8)
    view = memoryview(data.numpy())  # type: ignore[arg-type]
    read = 0
    while read < leaf.nbytes:
        count = os.preadv(descriptor, [view[read : read + (1 << 30)]], leaf.offset + read)
        if count == 0:
            raise ProtocolError(f"{leaf.where}: its bytes end after {read} of {leaf.nbytes}")
        read += count
    return data.view(dtype).reshape(leaf.shape).to(device)


def _plain(leaf: Leaf) -> int | float | bool:
    try:
        if leaf.type == "int":
            return int(leaf.value)
        if leaf.type == "float":
            return float(leaf.value)
        return {"True": True, "False": False}[leaf.value]
    except (ValueError, KeyError):
        raise ProtocolError(f"{leaf.where}: {leaf.value[:40]!r} is no {leaf.type}") from None
