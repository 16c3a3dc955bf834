"""A recording's replay as straight code: replay it, hand out its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._dynamo import guards
from torch.utils._pytree import tree_unflatten

from pass_bench.runtime.emit import Source
from pass_bench.runtime.recorded import Launch

alias: Callable[..., torch.Tensor] = guards._reinterpret_tensor  # type: ignore[attr-defined]
use_count: Callable[[int], int] = torch._C._storage_Use_Count


@dataclass(eq=False)
class Output:
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
        return alias(base, self.size, self.stride, self.offset)


@dataclass
class Instance:
    """One recording. `storages`: the memory of its outputs, and its reference count when nobody uses it.

    `launch`: what does the same as `replay`, where that can be done without torch.
    """

    replay: Callable[[], None]
    outputs: list[Any]
    structure: Any
    storages: list[tuple[int, int]] = field(default_factory=list)
    launch: Launch | None = None

    def free(self) -> bool:
        """Whether no output that was handed out is still in use."""
        return all(use_count(address) <= idle for address, idle in self.storages)


def write_replay(
    source: Source, instance: Instance, parameters: Sequence[str], launched: bool
) -> list[str] | None:
    """The lines that replay a recording, unless that is `launched` already, and return.

    None if its outputs nest in odd ways. What is made for the caller is made after the launch, while the
    device works.
    """
    nest = tree_unflatten(instance.outputs, instance.structure)
    leaves = [leaf for leaf in instance.outputs if isinstance(leaf, Output)]
    if len(list(_written_out(nest))) != len(leaves):
        return None
    replay = source.bind(instance.replay, "replay")  # if launched: so that the recording lives as long
    body = [] if launched else [f"{replay}()"]
    names: dict[int, str] = {}
    for leaf in leaves:
        if leaf.is_input:
            names[id(leaf)] = parameters[leaf.source]
        elif id(leaf) not in names:
            base = parameters[leaf.source] if leaf.tensor is None else source.bind(leaf.tensor, "memory")
            made = f"{source.bind(alias, 'alias')}({base}, {leaf.size}, {leaf.stride}, {leaf.offset})"
            names[id(leaf)] = made
            if sum(other is leaf for other in leaves) > 1:
                names[id(leaf)] = source.local("out")
                body.append(f"{names[id(leaf)]} = {made}")
    result = source.literal(nest, lambda value: names[id(value)] if isinstance(value, Output) else None)
    return [*body, f"return {result}"]


def _written_out(value: Any) -> Iterator[Output]:
    """The outputs in plain tuples, lists and dicts, which `Source.literal` writes as they are."""
    if isinstance(value, Output):
        yield value
    elif type(value) in (tuple, list):
        for item in value:
            yield from _written_out(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _written_out(item)
