"""Record a callable as a CUDA graph and replay it safely: inputs checked or copied, outputs kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._dynamo import guards
from torch.utils._pytree import tree_flatten, tree_unflatten

from pass_bench.runtime.fresh import fresh_copies

_use_count: Callable[[int], int] = torch._C._storage_Use_Count
_alias: Callable[..., torch.Tensor] = guards._reinterpret_tensor  # type: ignore[attr-defined]
LENT = 2  # recordings whose outputs are handed out as they are
WARM_CALLS = 4
SETTLED_AFTER = 8  # calls with an input at one address, before it is read there again

Record = Callable[[Callable[..., Any], Sequence[Any]], tuple[Any, Callable[[], None]]]


def _raw_stream(device: int) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device))


def record_cuda(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Callable[[], None]]:
    """Capture a call in a CUDA graph with memory of its own; return its outputs and what replays it.

    Nothing runs before the first replay. Raises RuntimeError where the call does what cannot be captured.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = function(*arguments)
    return outputs, graph.replay


@dataclass
class _Output:
    """Where an output lies: in memory of the recording (`tensor`), or in that of input `source`.

    `offset`: elements after the first one of the input. `is_input`: it is the very tensor.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    tensor: torch.Tensor | None = None
    source: int = -1
    offset: int = 0
    is_input: bool = False

    def made_from(self, base: torch.Tensor) -> torch.Tensor:
        """The output as a tensor of the caller's own, on the memory of `base`."""
        return _alias(base, self.size, self.stride, self.offset)


@dataclass
class _Instance:
    """One recording. `storages`: the memory of its outputs, and its reference count when nobody uses it."""

    replay: Callable[[], None]
    outputs: list[Any]
    structure: Any
    storages: list[tuple[int, int]] = field(default_factory=list)
    flat: type | None = None  # tuple or list, if the outputs are that and all lie in the recording

    def free(self) -> bool:
        """Whether no output that was handed out is still in use."""
        for address, idle in self.storages:  # noqa: SIM110 (a generator costs more than the loop)
            if _use_count(address) > idle:
                return False
        return True


@dataclass
class _Buffer:
    """Memory of ours for an input that comes at changing addresses; the last `steady` came at `address`."""

    tensor: torch.Tensor
    address: int
    steady: int = 0


class Replay:
    """`function` for inputs of one kind, replayed.

    An input that comes at the address of the recording is read there. One that comes elsewhere is copied
    into memory of ours from then on, and back after the replay if `written` says that the function may write
    to it; when it has settled at an address for a while, that is recorded instead. Outputs lie in the memory
    of one of `LENT` recordings, whichever has no output that the caller still holds; if all have, a further
    recording's outputs are copied out. `why_plain` says why calls are not replayed, empty if they are.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        written: Callable[[], frozenset[int]],
        record: Record = record_cuda,
    ) -> None:
        self.function = function
        self._record = record
        self._places = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        self._addresses: dict[int, int] = {}
        self._expected: list[int] = []
        self._buffers: dict[int, _Buffer] = {}
        self._settled_after = SETTLED_AFTER
        self._instances: list[_Instance | None] = [None] * (LENT + 1)
        self._stream: Any = None
        self._raw_stream = -1
        devices = [inputs[i].device.index for i in self._places if inputs[i].is_cuda]
        self._device = devices[0] if devices else 0
        self.why_plain = _why_not(inputs) if record is record_cuda else ""
        if not self.why_plain:
            with _random_state_kept(inputs):
                for _ in range(WARM_CALLS):
                    function(*fresh_copies(inputs))
        self.written = written()

    @property
    def copied(self) -> tuple[int, ...]:
        """Positions of the inputs that are copied before each replay."""
        return tuple(self._buffers)

    def __call__(self, *inputs: Any) -> Any:
        if self.why_plain:
            return self.function(*inputs)
        if self._buffers or [inputs[i].data_ptr() for i in self._places] != self._expected:
            self._look_at_addresses(inputs)
        self._follow_stream()
        number = next((n for n in range(LENT) if (x := self._instances[n]) is None or x.free()), LENT)
        instance = self._instances[number]
        if instance is None:
            try:
                instance = self._instances[number] = self._recorded(inputs)
            except RuntimeError as error:
                self.why_plain = f"it cannot be captured: {str(error).splitlines()[0]}"
                return self.function(*inputs)
        for i, buffer in self._buffers.items():
            buffer.tensor.copy_(inputs[i])
        instance.replay()
        for i, buffer in self._buffers.items():
            if i in self.written:
                inputs[i].copy_(buffer.tensor)
        return self._handed_out(instance, inputs, copy=number == LENT)

    def _look_at_addresses(self, inputs: Sequence[Any]) -> None:
        """Decide which inputs are read where they are; a change voids what was recorded."""
        moved = False
        for i in self._places:
            address = inputs[i].data_ptr()
            buffer = self._buffers.get(i)
            if buffer is not None:
                buffer.steady = buffer.steady + 1 if address == buffer.address else 0
                buffer.address = address
            elif self._addresses.setdefault(i, address) != address:
                self._buffers[i] = _Buffer(fresh_copies([inputs[i]])[0], address)
                moved = True
        settled = [i for i, buffer in self._buffers.items() if buffer.steady >= self._settled_after]
        if settled:
            for i in settled:
                self._addresses[i] = self._buffers.pop(i).address
            self._settled_after *= (
                4  # an input that moves every now and then must not cost recordings for ever
            )
            moved = True
        if moved:
            self._forget_recordings()
        self._expected = [self._addresses.get(i, 0) for i in self._places]

    def _forget_recordings(self) -> None:
        if any(self._instances) and torch.cuda.is_available():
            torch.cuda.synchronize()
        self._instances = [None] * (LENT + 1)

    def _follow_stream(self) -> None:
        """Replays on one stream must not overtake those on the stream used before: they share memory."""
        if self._record is not record_cuda or _raw_stream(self._device) == self._raw_stream:
            return
        stream = torch.cuda.current_stream(self._device)
        if self._stream is not None:
            stream.wait_stream(self._stream)
        self._stream, self._raw_stream = stream, stream.cuda_stream

    def _recorded(self, inputs: Sequence[Any]) -> _Instance:
        arguments = [self._buffers[i].tensor if i in self._buffers else x for i, x in enumerate(inputs)]
        outputs, replay = self._record(self.function, arguments)
        leaves, structure = tree_flatten(outputs)
        placed: dict[int, Any] = {}
        for leaf in leaves:
            if id(leaf) not in placed:
                placed[id(leaf)] = self._place(leaf, arguments)
        instance = _Instance(replay, [placed[id(leaf)] for leaf in leaves], structure)
        own = {
            leaf.tensor.untyped_storage()._cdata
            for leaf in instance.outputs
            if isinstance(leaf, _Output) and leaf.tensor is not None
        }
        placed_here = all(isinstance(x, _Output) and x.tensor is not None for x in instance.outputs)
        if type(outputs) in (tuple, list) and len(outputs) == len(leaves) and placed_here:
            instance.flat = type(outputs)
        del outputs, leaves
        instance.storages = [(address, torch._C._storage_Use_Count(address)) for address in own]
        return instance

    def _place(self, leaf: Any, arguments: Sequence[Any]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        size, stride = tuple(leaf.shape), leaf.stride()
        for i in self._places:
            argument = arguments[i]
            if leaf is argument:
                return _Output(size, stride, source=i, is_input=True)
            if leaf.untyped_storage()._cdata == argument.untyped_storage()._cdata:
                offset = int(leaf.storage_offset() - argument.storage_offset())
                return _Output(size, stride, source=i, offset=offset)
        return _Output(size, stride, leaf)

    def _handed_out(self, instance: _Instance, inputs: Sequence[Any], copy: bool) -> Any:
        if instance.flat is not None and not copy:
            return instance.flat([_alias(x.tensor, x.size, x.stride, 0) for x in instance.outputs])
        made: dict[int, Any] = {}
        if copy:
            own = [x for x in instance.outputs if isinstance(x, _Output) and x.tensor is not None]
            copies = fresh_copies([x.tensor for x in own])
            made = {id(x): tensor for x, tensor in zip(own, copies, strict=True)}
        for leaf in instance.outputs:
            if id(leaf) in made:
                continue
            if not isinstance(leaf, _Output):
                made[id(leaf)] = leaf
            elif leaf.tensor is not None:
                made[id(leaf)] = leaf.made_from(leaf.tensor)
            else:
                source = inputs[leaf.source]
                made[id(leaf)] = source if leaf.is_input else leaf.made_from(source)
        return tree_unflatten([made[id(leaf)] for leaf in instance.outputs], instance.structure)


def _why_not(inputs: Sequence[Any]) -> str:
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if not tensors or not all(value.is_cuda for value in tensors):
        return "an input is not on the GPU"
    if len({value.untyped_storage()._cdata for value in tensors}) != len(tensors):
        return "two inputs share memory"
    if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
        return "gradients are recorded"
    return ""


def _random_state_kept(inputs: Sequence[Any]) -> Any:
    devices = {value.device.index for value in inputs if isinstance(value, torch.Tensor) and value.is_cuda}
    return torch.random.fork_rng(devices=sorted(devices))
