"""Allocate what a plan hands out in its final shape, where that is the very same memory."""

from __future__ import annotations

from dataclasses import replace

import torch

from pass_bench.runtime.observe import Layout
from pass_bench.runtime.plan import Described, Place, Plan, Slot, Step, mapped, slots_in


def allocated_as_used(plan: Plan) -> Plan:
    """A plan like another, in which a fresh tensor of which only one view is used is allocated as that view.

    `out = torch.empty(n); kernel[grid](x, out, n); return out.view(shape)` needs no view: the kernel takes an
    address, nothing else sees `out`, and the view covers all of it.
    """
    for step in plan.steps:
        if step.kind == "allocate" and isinstance(step.results, Slot) and not plan.unclear:
            view = _only_view(plan, step, step.results)
            if view is not None:
                plan = _with_allocation(plan, step, step.results, view)
    return plan


def _only_view(plan: Plan, allocation: Step, fresh: Slot) -> Step | None:
    """The step that makes the only tensor on the allocated memory of which more than the address is used."""
    family = _family(plan, fresh)
    makers = [step for step in plan.steps if _makes_views(step, family)]
    others = [step for step in plan.steps if not _makes_views(step, family)]
    used = set(slots_in(plan.result))
    for step in others:
        used |= set(described(step) if step.by_address or step.by_pointer else step.uses())
    maker = next((step for step in makers if used & family == {step.results}), None)
    if maker is None or maker.layout is None or allocation.layout is None:
        return None
    assert isinstance(maker.results, Slot)
    place = plan.place(maker.results)
    covers = _extent(maker.layout) == _extent(allocation.layout) == _elements(maker.layout)
    if place.offset or not place.plain or not covers:
        return None
    takers = [step for step in others if step.by_pointer and family & set(step.uses())]
    if takers and not _is_contiguous(maker.layout):  # they check that what they get is
        return None
    given = {slot for step in takers for slot in step.uses() if slot in family}
    return None if any(plan.place(slot) != Place(fresh, 0) for slot in given - {fresh}) else maker


def _with_allocation(plan: Plan, allocation: Step, fresh: Slot, maker: Step) -> Plan:
    layout, made = maker.layout, maker.results
    assert layout is not None and isinstance(made, Slot)
    family = _family(plan, fresh)
    allocated = replace(
        allocation,
        function=torch.empty_strided,
        args=(layout.size, layout.stride),
        kwargs=(("dtype", layout.dtype), ("device", layout.device)),
        results=made,
        layout=layout,
    )
    steps = []
    for step in plan.steps:
        if step is allocation:
            steps.append(allocated)
        elif step.by_pointer:
            args = mapped(step.args, lambda value: made if value in family else value)
            kwargs = tuple(
                (key, mapped(value, lambda value: made if value in family else value))
                for key, value in step.kwargs
            )
            steps.append(replace(step, args=args, kwargs=kwargs))
        elif not _makes_views(step, family):
            steps.append(step)
    places = {
        slot: replace(place, root=made) if place.root == fresh else place
        for slot, place in plan.places.items()
        if slot != made
    }
    return replace(plan, steps=steps, places={**places, fresh: Place(made, 0)})


def _family(plan: Plan, fresh: Slot) -> set[Slot]:
    return {fresh, *(slot for slot, place in plan.places.items() if place.root == fresh)}


def _makes_views(step: Step, family: set[Slot]) -> bool:
    made = set(step.makes())
    return step.kind == "operator" and not step.mutates and bool(made) and made <= family


def described(step: Step) -> list[Slot]:
    """The bases of Triton's tensor descriptors, which have a shape of their own."""
    values: list[object] = []
    mapped((step.args, tuple(value for _, value in step.kwargs)), values.append)
    return [value.base for value in values if isinstance(value, Described)]


def _elements(layout: Layout) -> int:
    count = 1
    for size in layout.size:
        count *= size
    return count


def _extent(layout: Layout) -> int:
    """Elements from the first to the last one."""
    if not _elements(layout):
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(layout.size, layout.stride, strict=True))


def _is_contiguous(layout: Layout) -> bool:
    expected = 1
    for size, step in zip(reversed(layout.size), reversed(layout.stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True
