"""`build_direct`: a captured graph as straight code behind one check, specialised for the inputs it meets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from torch import fx

from pass_bench.runtime.emit import GraphWriter, Source, compile_function, written_source
from pass_bench.runtime.fold import fold
from pass_bench.runtime.observe import observe
from pass_bench.runtime.validity import Check, can_specialise

MOST_VARIANTS = 8
PROMOTE_AFTER = 4  # calls in a row that another variant served, before it becomes the fast one

_numbers = itertools.count()


@dataclass(frozen=True)
class DirectReport:
    """What became of a graph: how many specialisations exist, and which launches are not planned, and why."""

    variants: int
    planned: int
    unplanned: tuple[str, ...]
    source: str


@dataclass
class Variant:
    """Code for inputs of one kind. `guarded` checks its inputs first; `body` does not."""

    matches: Callable[..., bool]
    guarded: CodeType
    body: Callable[..., Any]
    names: dict[str, Any] = field(default_factory=dict)


class Direct:
    """The specialisations of one graph, and the function that runs the right one.

    `entry` holds the code of the variant in use, so that a call costs one frame: check, statements, return.
    A call that fails its check ends in `miss`, which finds or makes the variant that fits. At most
    `MOST_VARIANTS` are kept.
    """

    def __init__(self, gm: fx.GraphModule, plans: bool) -> None:
        self.gm = gm
        self.plans = plans
        self.namespace: dict[str, Any] = {"__builtins__": __builtins__, "_miss": self.miss}
        self.variants: list[Variant] = []
        self.fast: Variant | None = None
        self._streak = 0
        self._numbers = itertools.count()
        self.parameters = tuple(
            f"a{i}" for i, node in enumerate(n for n in gm.graph.nodes if n.op == "placeholder")
        )
        self.label = f"direct-{next(_numbers)}"
        self._start = compile_function("direct", self.parameters, [self._call_miss()], f"{self.label}-start")
        self.entry = FunctionType(self._start, self.namespace, "direct")
        self.plain = self._plain()

    def _call_miss(self) -> str:
        return f"return _miss(({', '.join(self.parameters)}{',' if len(self.parameters) == 1 else ''}))"

    def _plain(self) -> Callable[..., Any]:
        """The graph as straight code that is right for every input: nothing folded, nothing planned."""
        source = Source(prefix="_p_")
        writer = GraphWriter(self.gm, self.gm.graph, source)
        parameters = writer.parameters()
        writer.write()
        code = compile_function("plain", parameters, source.lines, f"{self.label}-plain")
        return FunctionType(code, {"__builtins__": __builtins__, **source.bound}, "plain")

    def miss(self, inputs: tuple[Any, ...]) -> Any:
        """Run inputs that the fast variant is not for."""
        for variant in self.variants:
            if variant.matches(*inputs):
                self._served_by(variant)
                return variant.body(*inputs)
        if not all(can_specialise(value) for value in inputs):
            return self.plain(*inputs)
        return self._specialise(inputs)

    def _served_by(self, variant: Variant) -> None:
        self._streak += 1
        self.variants.remove(variant)
        self.variants.insert(0, variant)
        if self._streak >= PROMOTE_AFTER and variant is not self.fast:
            self._promote(variant)

    def _promote(self, variant: Variant) -> None:
        self._streak = 0
        self.fast = variant
        self.namespace.update(variant.names)
        self.entry.__code__ = variant.guarded

    def _specialise(self, inputs: tuple[Any, ...]) -> Any:
        number = next(self._numbers)
        source = Source(prefix=f"_{number}_")
        check = Check(self.parameters, inputs, prefix=f"_{number}_check_")
        result, observation = observe(self.gm, inputs)
        graph, _, _ = fold(self.gm, observation)
        writer = GraphWriter(self.gm, graph, source)
        for name, node in zip(
            self.parameters, (n for n in graph.nodes if n.op == "placeholder"), strict=True
        ):
            writer.names[node] = source.local(name)
        writer.write()
        self._add(check.expression(aligned=()), source, check.bound, number)
        return result

    def _add(self, test: str, source: Source, bound: dict[str, Any], number: int) -> None:
        names = {**source.bound, **bound}
        label = f"{self.label}-{number}"
        matches = compile_function("matches", self.parameters, [f"return {test}"], f"{label}-check")
        body = compile_function("direct", self.parameters, source.lines, f"{label}-body")
        guarded = compile_function(
            "direct", self.parameters, [f"if not ({test}): {self._call_miss()}", *source.lines], label
        )
        space = {"__builtins__": __builtins__, **names}
        variant = Variant(
            FunctionType(matches, space, "matches"), guarded, FunctionType(body, space, "direct"), names
        )
        self.variants.insert(0, variant)
        if self.fast is None:
            self._promote(variant)
        if len(self.variants) > MOST_VARIANTS:
            self._drop(self.variants[-1] if self.variants[-1] is not self.fast else self.variants[-2])

    def _drop(self, variant: Variant) -> None:
        self.variants.remove(variant)

    def report(self) -> DirectReport:
        """What there is now; more after the first calls, which are the ones that specialise."""
        return DirectReport(len(self.variants), 0, (), written_source(self.entry.__code__))


def build_direct(
    gm: fx.GraphModule, example_inputs: Sequence[Any], *, plans: bool = True
) -> Callable[..., Any]:
    """Return a function that computes `gm` with as little host work as can be.

    It takes the graph's inputs by position (tensors and ints) and returns what the graph returns. The first
    call with inputs of a new kind (shapes, dtypes, strides, devices, scalars, global modes) runs the graph
    and notes what it does; later ones run straight code behind one check. `example_inputs` are not run and
    not changed.
    The function's `report()` says what was specialised and planned.
    """
    direct = Direct(gm, plans)
    direct.entry.report = direct.report  # type: ignore[attr-defined]
    return direct.entry
