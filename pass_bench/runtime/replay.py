"""Record a callable as a CUDA graph and replay it safely: inputs checked or copied, outputs kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from pass_bench.runtime.cuda_graph import Recorded, random_numbers_drawn, random_state_kept, record_cuda
from pass_bench.runtime.emit import Source
from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.recorded import Expected, native_replay, pack
from pass_bench.runtime.replay_code import Instance, Output, use_count, write_replay

LENT = 2  # recordings whose outputs are handed out as they are
WARM_CALLS = 4
SETTLED_AFTER = 8  # calls with an input at one address, before it is read there again

Record = Callable[[Callable[..., Any], Sequence[Any]], Recorded]


def _raw_stream(device: int) -> int:
    return int(torch._C._cuda_getCurrentRawStream(device))


@dataclass
class _Recordings:
    """Recordings that read inputs at `addresses`, by position, and the others from `buffers` of ours."""

    addresses: dict[int, int]
    buffers: dict[int, torch.Tensor] = field(default_factory=dict)
    instances: list[Instance | None] = field(default_factory=lambda: [None] * (LENT + 1))

    def read(self, addresses: dict[int, int]) -> bool:
        """Whether inputs at these addresses are where they are read."""
        return all(addresses[i] == address for i, address in self.addresses.items())


class Replay:
    """`function` for inputs of one kind, replayed.

    Inputs that come at the addresses of the recording are read there. In a call in which one comes elsewhere,
    other recordings serve, for which it is copied into memory of ours, and back after the replay if `written`
    says that the function may write to it; when it has settled at an address for a while, that is recorded
    instead. Outputs lie in the memory of one of `LENT` recordings, whichever has no output that the caller
    still holds; if all have, a further recording's outputs are copied out. `why_plain` says why calls are not
    replayed, empty if they are.

    Calling it is right for all inputs of the kind. `straight` writes code for those at their recorded
    addresses; `changed` is called when it would write other code than before.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        written: Callable[[], frozenset[int]],
        record: Record = record_cuda,
    ) -> None:
        self.function = function
        self.changed: Callable[[], None] = lambda: None
        self._record = record
        self._places = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        self._layouts = [Expected.of(inputs[i]) for i in self._places]
        self._last: dict[int, int] = {}  # addresses
        self._steady = dict.fromkeys(self._places, 0)  # calls in a row at that address
        self._settled_after = SETTLED_AFTER
        self._home: _Recordings | None = None
        self._away: _Recordings | None = None  # for calls in which an input is not where home reads it
        self._used: _Recordings | None = None
        self._stream: Any = None
        self._raw_stream = -1
        devices = [inputs[i].device.index for i in self._places if inputs[i].is_cuda]
        self._device = devices[0] if devices else 0
        self._version = 0  # of what the straight code depends on
        self.why_plain = _why_not(inputs) if record is record_cuda else ""
        self._draws = False  # random numbers, of which torch's replay counts how many
        if not self.why_plain:
            with random_state_kept(inputs):
                before = random_numbers_drawn()
                for _ in range(WARM_CALLS):
                    function(*fresh_copies(inputs))
                self._draws = random_numbers_drawn() != before
        self.written = written()

    @property
    def copied(self) -> tuple[int, ...]:
        """Positions of the inputs that were copied in the last call that was no straight code."""
        return () if self._used is None else tuple(self._used.buffers)

    def straight(self, source: Source, parameters: Sequence[str], test: str, but_tensors: str) -> list[str]:
        """Lines that replay and return where addresses, stream and a free recording allow it."""
        if self.why_plain:
            function = source.bind(self.function, "function")
            return [f"if {test}: return {function}({', '.join(parameters)})"]
        if self._home is None or self._home.buffers:
            return []
        lines: list[str] = []
        for instance in self._home.instances[:LENT]:
            if instance is None:
                continue
            native = None if torch.is_grad_enabled() or None in self._layouts else native_replay()
            launched = native is not None and instance.launch is not None
            replay = write_replay(source, instance, parameters, launched)
            if replay is not None:
                ready = self._ready(source, instance, parameters, test, but_tensors, native)
                lines += [f"if {ready}:", *(f"    {line}" for line in replay)]
        return lines

    def _ready(
        self,
        source: Source,
        instance: Instance,
        parameters: Sequence[str],
        test: str,
        but_tensors: str,
        native: Callable[..., bool] | None,
    ) -> str:
        """The condition for replaying a recording as it is: one native call where that sees everything.

        That call launches it too, if the recording has a launch.
        """
        assert self._home is not None
        addresses = [self._home.addresses[i] for i in self._places]
        device = self._device if self._record is record_cuda else None
        if native is not None:
            layouts = [layout for layout in self._layouts if layout is not None]
            on = self._raw_stream
            packed = pack(layouts, addresses, instance.storages, device, on, instance.launch)
            arguments = [source.bind(packed, "recorded"), *(parameters[i] for i in self._places)]
            return f"{but_tensors} and {source.bind(native, 'native')}({', '.join(arguments)})"
        terms = [
            f"{parameters[i]}.data_ptr() == {address}"
            for i, address in zip(self._places, addresses, strict=True)
        ]
        if device is not None:
            stream = source.bind(torch._C._cuda_getCurrentRawStream, "stream")
            terms.append(f"{stream}({device}) == {self._raw_stream}")
        count = source.bind(use_count, "use_count")
        terms += [f"{count}({address}) <= {idle}" for address, idle in instance.storages]
        return " and ".join([test, *terms])

    def __call__(self, *inputs: Any) -> Any:
        if self.why_plain:
            return self.function(*inputs)
        before = self._version
        result = self._replayed(inputs)
        if self._version != before:
            self.changed()
        return result

    def _replayed(self, inputs: tuple[Any, ...]) -> Any:
        self._used = used = self._recordings_for(inputs)
        if used.buffers and self.written and _share_memory([inputs[i] for i in self._places]):
            return self.function(*inputs)
        self._follow_stream()
        number = next((n for n in range(LENT) if (x := used.instances[n]) is None or x.free()), LENT)
        instance = used.instances[number]
        if instance is None:
            self._version += 1
            arguments = [used.buffers.get(i, value) for i, value in enumerate(inputs)]
            try:
                instance = used.instances[number] = self._recorded(arguments)
            except RuntimeError as error:
                self.why_plain = f"it cannot be captured: {str(error).splitlines()[0]}"
                return self.function(*inputs)
        for i, buffer in used.buffers.items():
            _each_once(buffer).copy_(_each_once(inputs[i]))
        instance.replay()
        for i, buffer in used.buffers.items():
            if i in self.written:
                inputs[i].copy_(buffer)
        return self._handed_out(instance, inputs, copy=number == LENT)

    def _recordings_for(self, inputs: Sequence[Any]) -> _Recordings:
        """The recordings for inputs that lie where these do; new ones where none fit or fewer copies do."""
        now = {i: inputs[i].data_ptr() for i in self._places}
        self._steady = {i: self._steady[i] + 1 if self._last.get(i) == now[i] else 0 for i in self._places}
        self._last = now
        if self._home is None:
            self._home = _Recordings(now)
        found = next((x for x in (self._home, self._away) if x is not None and x.read(now)), None)
        if found is None:
            before = self._away or self._home
            kept = {i: address for i, address in before.addresses.items() if now[i] == address}
            buffers = {
                i: before.buffers[i] if i in before.buffers else fresh_copies([inputs[i]])[0]
                for i in self._places
                if i not in kept
            }
            found = self._away = self._instead(_Recordings(kept, buffers))
        settled = [i for i in found.buffers if self._steady[i] >= self._settled_after]
        if settled:
            addresses = {**found.addresses, **{i: now[i] for i in settled}}
            buffers = {i: buffer for i, buffer in found.buffers.items() if i not in settled}
            found = self._home = self._instead(_Recordings(addresses, buffers))
            self._away = None
            self._settled_after *= 4  # what moves every now and then must not cost recordings for ever
        return found

    def _instead(self, made: _Recordings) -> _Recordings:
        """Recordings in the place of others, which nothing may be running any more."""
        self._version += 1
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return made

    def _follow_stream(self) -> None:
        """Replays on one stream must not overtake those on the stream used before: they share memory."""
        if self._record is not record_cuda or _raw_stream(self._device) == self._raw_stream:
            return
        stream = torch.cuda.current_stream(self._device)
        if self._stream is not None:
            stream.wait_stream(self._stream)
        self._stream, self._raw_stream = stream, stream.cuda_stream
        self._version += 1

    def _recorded(self, arguments: Sequence[Any]) -> Instance:
        recorded = self._record(self.function, arguments)
        leaves, structure = tree_flatten(recorded.outputs)
        placed: dict[int, Any] = {}
        for leaf in leaves:
            if id(leaf) not in placed:
                placed[id(leaf)] = self._place(leaf, arguments)
        instance = Instance(recorded.replay, [placed[id(leaf)] for leaf in leaves], structure)
        instance.launch = None if self._draws else recorded.launch
        own = {
            leaf.tensor.untyped_storage()._cdata
            for leaf in instance.outputs
            if isinstance(leaf, Output) and leaf.tensor is not None
        }
        del recorded, leaves
        instance.storages = [(address, use_count(address)) for address in own]
        return instance

    def _place(self, leaf: Any, arguments: Sequence[Any]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        size, stride = tuple(leaf.shape), leaf.stride()
        for i in self._places:
            argument = arguments[i]
            if leaf is argument:
                return Output(size, stride, source=i, is_input=True)
            if leaf.untyped_storage()._cdata == argument.untyped_storage()._cdata:
                offset = int(leaf.storage_offset() - argument.storage_offset())
                return Output(size, stride, source=i, offset=offset)
        return Output(size, stride, leaf)

    def _handed_out(self, instance: Instance, inputs: Sequence[Any], copy: bool) -> Any:
        made: dict[int, Any] = {}
        if copy:
            own = [x for x in instance.outputs if isinstance(x, Output) and x.tensor is not None]
            copies = fresh_copies([x.tensor for x in own])
            made = {id(x): tensor for x, tensor in zip(own, copies, strict=True)}
        for leaf in instance.outputs:
            if id(leaf) in made:
                continue
            if not isinstance(leaf, Output):
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
    if _share_memory(tensors):
        return "two inputs share memory"
    if any(torch._debug_has_internal_overlap(_each_once(value)) for value in tensors):
        return "an input overlaps itself"
    if torch.is_grad_enabled() and any(value.requires_grad for value in tensors):
        return "gradients are recorded"
    return ""


def _share_memory(tensors: Sequence[torch.Tensor]) -> bool:
    return len({value.untyped_storage()._cdata for value in tensors}) != len(tensors)


def _each_once(tensor: torch.Tensor) -> torch.Tensor:
    """An expanded tensor without what is there more than once, so that it can be copied to."""
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor
