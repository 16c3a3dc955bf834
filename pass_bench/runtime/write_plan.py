"""Write a plan's steps as straight Python into the function of the graph that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._dynamo import guards

from pass_bench.runtime.allocate import allocated_as_used, described
from pass_bench.runtime.emit import Source
from pass_bench.runtime.plan import Constant, CurrentStream, Described, Plan, Slot, Step, rebased, slots_in

_empty_cpu: Callable[..., torch.Tensor] = guards._empty_strided_cpu  # type: ignore[attr-defined]
_empty_cuda: Callable[..., torch.Tensor] = guards._empty_strided_cuda  # type: ignore[attr-defined]
_alias: Callable[..., torch.Tensor] = guards._reinterpret_tensor  # type: ignore[attr-defined]


class PlanWriter:
    """Writes one plan into `source`; `arguments` are the expressions of its tensor arguments.

    `shared` holds what a whole function needs once: addresses by variable, the current stream by device.
    """

    def __init__(self, source: Source, plan: Plan, arguments: Sequence[str], shared: dict[str, str]) -> None:
        self.source = source
        self.plan = plan = allocated_as_used(plan)
        self.shared = shared
        self.names = {Slot(i): name for i, name in enumerate(arguments)}
        self._kept: set[str] = set(arguments)

    def write(self) -> Any:
        """Write the steps; return the structure of the result, with the slots that `name_of` knows."""
        steps = self._needed()
        last = self._last_uses(steps)
        for position, step in enumerate(steps):
            self._write_step(step)
            dead = [self.names[slot] for slot in last.get(position, ()) if slot in self.names]
            dead = [name for name in dict.fromkeys(dead) if name not in self._kept]
            if dead:
                self.source.lines.append(f"{' = '.join(dead)} = None")
        return self.plan.result

    def _needed(self) -> list[Step]:
        """The steps that matter: launches, writes, and what these and the result use."""
        wanted = set(slots_in(self.plan.result))
        needed: list[Step] = []
        for step in reversed(self.plan.steps):
            if step.kind == "launch" or step.mutates or wanted & set(step.makes()):
                needed.append(step)
                wanted |= self._really_used(step)
        return needed[::-1]

    def _really_used(self, step: Step) -> set[Slot]:
        if step.by_address:
            return {self.plan.place(slot).root for slot in step.uses()} | set(described(step))
        if self._is_alias(step):
            return {self.plan.place(next(step.makes())).root}
        return set(step.uses())

    def _is_alias(self, step: Step) -> bool:
        """Whether a step does no more than make a view, which can be made from the owner of the memory."""
        if step.kind != "operator" or step.mutates or step.layout is None:
            return False
        place = self.plan.places.get(next(step.makes()))
        return place is not None and place.plain and place.offset % step.layout.dtype.itemsize == 0

    def _last_uses(self, steps: Sequence[Step]) -> dict[int, list[Slot]]:
        last: dict[Slot, int] = {}
        for position, step in enumerate(steps):
            for slot in [*self._really_used(step), *step.makes()]:
                last[slot] = position
        returned = set(slots_in(self.plan.result))
        found: dict[int, list[Slot]] = {}
        for slot, position in last.items():
            if slot.number >= self.plan.arguments and slot not in returned:
                found.setdefault(position, []).append(slot)
        return found

    def _write_step(self, step: Step) -> None:
        lines = self.source.lines
        if step.kind == "launch":
            function = self.source.bind(step.function, f"launch_{getattr(step.function, '__name__', '')}")
            name_of = self._address if step.by_address else self._tensor
            lines.append(self.source.call(function, step.args, dict(step.kwargs), name_of))
            return
        expression = self._allocation(step) if step.kind == "allocate" else None
        if self._is_alias(step):
            expression = self._view(step)
        if expression is None:
            function = self.source.bind(step.function, getattr(step.function, "__name__", "operator"))
            expression = self.source.call(function, step.args, dict(step.kwargs), self._tensor)
        if step.results is None:
            lines.append(expression)
        elif isinstance(step.results, Slot):
            known = step.results in self.names
            lines.append(expression if known else f"{self._new(step.results)} = {expression}")
        else:
            targets = [self._new(slot) if slot not in self.names else "_" for slot in step.results]
            lines.append(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {expression}")

    def _new(self, slot: Slot) -> str:
        name = self.names[slot] = self.source.local("t")
        return name

    def _allocation(self, step: Step) -> str | None:
        layout = step.layout
        assert layout is not None
        function = {"cpu": _empty_cpu, "cuda": _empty_cuda}.get(layout.device.type)
        if function is None:
            return None
        dtype = self.source.bind(layout.dtype, str(layout.dtype).removeprefix("torch."))
        name = self.source.bind(function, f"empty_{layout.device.type}")
        return f"{name}({self.source.literal(layout.size)}, {self.source.literal(layout.stride)}, {dtype})"

    def _view(self, step: Step) -> str:
        layout, place = step.layout, self.plan.place(next(step.makes()))
        assert layout is not None
        offset = place.offset // layout.dtype.itemsize
        size, stride = self.source.literal(layout.size), self.source.literal(layout.stride)
        return f"{self.source.bind(_alias, 'alias')}({self.names[place.root]}, {size}, {stride}, {offset})"

    def name_of(self, value: Any) -> str | None:
        """The variable of a slot."""
        return self.names[value] if isinstance(value, Slot) else None

    def _tensor(self, value: Any) -> str | None:
        """The expression of a slot, of the current stream or of a descriptor; None for a constant."""
        if isinstance(value, Slot):
            return self.names[value]
        if isinstance(value, CurrentStream):
            return self._stream(value.device)
        if isinstance(value, Described):
            rebase = self.source.bind(rebased, "rebased")
            return f"{rebase}({self.source.bind(value.descriptor, 'descriptor')}, {self.names[value.base]})"
        if isinstance(value, Constant):
            return self.source.bind(value.value, "constant")
        return None

    def _address(self, value: Any) -> str | None:
        if not isinstance(value, Slot):
            return self._tensor(value)
        place = self.plan.place(value)
        owner = self.names[place.root]
        key = f"address of {owner}"
        if key not in self.shared:
            self.shared[key] = self.source.local("p")
            self.source.lines.append(f"{self.shared[key]} = {owner}.data_ptr()")
        return self.shared[key] + (f" + {place.offset}" if place.offset else "")

    def _stream(self, device: int) -> str:
        key = f"stream of {device}"
        if key not in self.shared:
            current = self.source.bind(torch._C._cuda_getCurrentRawStream, "current_stream")
            self.shared[key] = self.source.local("stream")
            self.source.lines.append(f"{self.shared[key]} = {current}({device})")
        return self.shared[key]
