"""What a launch plan is: the steps that a replacement function's host code comes down to."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from pass_bench.runtime.observe import Layout


@dataclass(frozen=True)
class Slot:
    """A tensor of the plan, by number: first the arguments, then what the steps make, in order."""

    number: int


@dataclass(frozen=True)
class CurrentStream:
    """The raw handle of the stream that is current when the plan runs."""

    device: int


@dataclass(frozen=True)
class Constant:
    """An object that is handed over as it is, whatever is in it."""

    value: Any


@dataclass(frozen=True, eq=False)
class Described:
    """A Triton tensor descriptor like `descriptor`, on the tensor in `base`."""

    descriptor: Any
    base: Slot

    def fields(self) -> tuple[Any, ...]:
        """What must be the same for two to be the same."""
        state = {key: value for key, value in vars(self.descriptor).items() if key != "base"}
        return (self.base, *(repr(item) for item in sorted(state.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Described) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(self.fields())


@dataclass(frozen=True)
class Step:
    """One thing to do: allocate a tensor, call an operator, launch a kernel.

    `results` is a Slot, a tuple of Slots (what the call returns, taken apart) or None; `layout` is that of a
    single one. `by_address`: tensors may be given as integers; `by_pointer`: as other tensors of the same
    address and dtype, contiguous ones if they are. `device` is the CUDA device that a launch needs to be
    current.
    """

    kind: Literal["allocate", "operator", "launch"]
    function: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    results: Slot | tuple[Any, ...] | None = None
    mutates: bool = False
    layout: Layout | None = None
    device: int | None = None
    by_address: bool = False
    by_pointer: bool = False
    aligned: bool = False  # specialised on whether pointers are multiples of 16

    def uses(self) -> Iterator[Slot]:
        """The tensors that the step reads or writes."""
        yield from slots_in((self.args, tuple(value for _, value in self.kwargs)))

    def makes(self) -> Iterator[Slot]:
        """The tensors that come out of it."""
        yield from slots_in(self.results)


@dataclass(frozen=True)
class Place:
    """Where a tensor begins: `offset` bytes after the first byte of another, which owns the memory.

    `plain`: it is of the same dtype, and neither conjugated nor negated.
    """

    root: Slot
    offset: int
    plain: bool = True


@dataclass
class Plan:
    """A replacement function as steps: `arguments` tensors in, `result` (Slots in a structure) out."""

    arguments: int
    argument_slots: tuple[
        int, ...
    ] = ()  # of each tensor among the arguments, in order; one given twice has one
    unclear: bool = False  # a result lies in the memory of an argument in a way that was not understood
    steps: list[Step] = field(default_factory=list)
    result: Any = None
    places: dict[Slot, Place] = field(default_factory=dict)

    def place(self, slot: Slot) -> Place:
        """The owner of a tensor's memory, as far as it is known, and the distance."""
        return self.places.get(slot, Place(slot, 0))

    def aligned_arguments(self) -> set[Slot]:
        """The arguments whose addresses a step was specialised on."""
        roots = {self.place(slot).root for step in self.steps if step.aligned for slot in step.uses()}
        if self.unclear and roots:
            return {Slot(number) for number in range(self.arguments)}
        return {root for root in roots if root.number < self.arguments}

    def devices(self) -> set[int]:
        """The CUDA devices that must be current."""
        return {step.device for step in self.steps if step.device is not None}


def rebased(descriptor: Any, base: torch.Tensor | None) -> Any:
    """A Triton tensor descriptor like another, on other memory."""
    made = copy.copy(descriptor)
    made.base = base
    return made


def slots_in(value: Any) -> Iterator[Slot]:
    """Every Slot in a nested value, left to right."""
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, Described):
        yield value.base
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from slots_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from slots_in(item)


def mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A nested value with `convert` applied to its leaves; lists, tuples, dicts and slices are nests."""
    if type(value) in (tuple, torch.Size):
        return tuple(mapped(item, convert) for item in value)
    if type(value) is list:
        return [mapped(item, convert) for item in value]
    if type(value) is dict:
        return {key: mapped(item, convert) for key, item in value.items()}
    if type(value) is slice:
        return slice(*(mapped(item, convert) for item in (value.start, value.stop, value.step)))
    return convert(value)


def same(left: Any, right: Any) -> bool:
    """Whether two recorded values are the same constant, slot, step or plan; 1, 1.0 and True all differ."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, slice):
        return same((left.start, left.stop, left.step), (right.start, right.stop, right.step))
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1.0, left) == math.copysign(1.0, right)
        )
    if isinstance(left, Step):
        return all(same(getattr(left, name), getattr(right, name)) for name in Step.__dataclass_fields__)
    if isinstance(left, Plan):
        return all(same(getattr(left, name), getattr(right, name)) for name in Plan.__dataclass_fields__)
    try:
        return bool(left == right)
    except Exception:
        return False
