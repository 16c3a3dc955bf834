"""`build_direct`: a captured graph as straight code behind one check, specialised for the inputs it meets."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Protocol, cast

import torch
from torch import fx

from pass_bench.runtime.emit import GraphWriter, Source, compile_function, written_source
from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.observe import is_replacement
from pass_bench.runtime.sites import Site, calls_native_kernels
from pass_bench.runtime.specialise import Specialisation
from pass_bench.runtime.validity import can_specialise

MOST_VARIANTS = 8
PROMOTE_AFTER = 4  # calls in a row that another variant served, before it becomes the fast one
KEEP_RETIRED = 2
WARM_CALLS = 6  # observe, record twice, run planned; two more for functions that settle late

_labels = itertools.count()


@dataclass(frozen=True)
class DirectReport:
    """What became of a graph: its specialisations, and which calls of the latest one run as plans.

    `unplanned` has one line for each that does not, with the reason; where nothing is specialised yet, for
    each whose host code is known to forbid it. `source` is the code in use.
    """

    variants: int
    planned: tuple[str, ...]
    unplanned: tuple[str, ...]
    pending: tuple[str, ...]
    source: str


@dataclass
class Variant:
    """Code for inputs of one kind. `guarded` checks its inputs first; `body` does not."""

    specialisation: Specialisation
    matches: Callable[..., bool]
    guarded: CodeType
    body: Callable[..., Any]
    names: dict[str, Any]


class Direct:
    """The specialisations of one graph, and the function that runs the right one.

    `entry` holds the code of the variant in use, so that a call costs one frame: check, statements, return.
    A call that fails its check ends in `miss`, which finds or makes the variant that fits. At most
    `MOST_VARIANTS` are kept.
    """

    def __init__(
        self, gm: fx.GraphModule, plans: bool, regraph: Callable[[Sequence[Any]], fx.GraphModule] | None
    ) -> None:
        self.gm = gm
        self.plans = plans
        self.regraph = regraph
        self.variants: list[Variant] = []
        self.fast: Variant | None = None
        self.namespace: dict[str, Any] = {"__builtins__": __builtins__, "_miss": self.miss}
        self._retired: deque[dict[str, Any]] = deque()
        self._streak = 0
        self._numbers = itertools.count()
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.parameters = tuple(f"a{i}" for i in range(len(placeholders)))
        self.label = f"direct-{next(_labels)}"
        start = compile_function("direct", self.parameters, [self._call_miss()], f"{self.label}-start")
        self.entry = FunctionType(start, self.namespace, "direct")
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
        """Make a variant's code the entry's. A call may still be in the old code, so its names go later."""
        self._streak = 0
        if self.fast is not None:
            self._retired.append(self.fast.names)
        self.fast = variant
        self.namespace.update(variant.names)
        self.entry.__code__ = variant.guarded
        while len(self._retired) > KEEP_RETIRED:
            for name in self._retired.popleft():
                if name not in variant.names and not any(name in names for names in self._retired):
                    self.namespace.pop(name, None)

    def _specialise(self, inputs: tuple[Any, ...]) -> Any:
        gm = self.gm if self.regraph is None or not self.variants else self.regraph(inputs)
        specialisation = Specialisation(
            gm, self.parameters, f"_{next(self._numbers)}_", self.plans, self._rewrite
        )
        result = specialisation.run(inputs)
        variant = self._written(specialisation)
        self.variants.insert(0, variant)
        if self.fast is None:
            self._promote(variant)
        if len(self.variants) > MOST_VARIANTS:
            self._drop(self.variants[-1] if self.variants[-1] is not self.fast else self.variants[-2])
        return result

    def _written(self, specialisation: Specialisation) -> Variant:
        prefix = f"_{next(self._numbers)}_"
        written = specialisation.write(prefix)
        label = f"{self.label}{prefix}"
        guard = [f"if not ({written.test}): {self._call_miss()}"] if written.test else []
        test = f"return {written.test or True}"
        matches = compile_function("matches", self.parameters, [test], f"{label}check")
        body = compile_function("direct", self.parameters, written.lines, f"{label}body")
        guarded = compile_function("direct", self.parameters, [*guard, *written.lines], f"{label}code")
        space = {"__builtins__": __builtins__, **written.bound}
        return Variant(
            specialisation,
            FunctionType(matches, space, "matches"),
            guarded,
            FunctionType(body, space, "direct"),
            written.bound,
        )

    def _rewrite(self, specialisation: Specialisation) -> None:
        """Replace the code of a variant, whose replacement functions are settled now."""
        for position, variant in enumerate(self.variants):
            if variant.specialisation is specialisation:
                try:
                    self.variants[position] = self._written(specialisation)
                except Exception as error:  # a defect of ours must not fail a call that has its result
                    specialisation.give_up(f"its plan cannot be written: {type(error).__name__}: {error}")
                    self.variants[position] = self._written(specialisation)
                if self.fast is variant:
                    self._promote(self.variants[position])

    def _drop(self, variant: Variant) -> None:
        self.variants.remove(variant)

    def report(self) -> DirectReport:
        """What there is now; the first calls with inputs of a kind specialise and record."""
        sites = self.variants[0].specialisation.sites if self.variants else self._unspecialised_sites()
        return DirectReport(
            len(self.variants),
            tuple(site.name for site in sites if site.plan is not None),
            tuple(
                f"{site.name} runs as written: {site.why_unplanned}" for site in sites if site.why_unplanned
            ),
            tuple(site.name for site in sites if site.open and self.variants),
            written_source(self.entry.__code__),
        )

    def _unspecialised_sites(self) -> list[Site]:
        """What the host code of the replacement functions says before any of them has run."""
        nodes = self.gm.graph.nodes if self.plans else ()
        return [Site(node, lambda: None) for node in nodes if is_replacement(node)]

    def may_write(self) -> frozenset[int]:
        """Positions of the inputs in whose memory the latest specialisation may write."""
        return self.variants[0].specialisation.may_write() if self.variants else frozenset()

    def warm(self, inputs: Sequence[Any]) -> None:
        """Specialise and plan for inputs like these, on copies, leaving the random state as it was."""
        devices = {x.device.index for x in inputs if isinstance(x, torch.Tensor) and x.is_cuda}
        with torch.random.fork_rng(devices=sorted(devices)), torch.no_grad():
            for _ in range(WARM_CALLS):
                self.entry(*fresh_copies(inputs))
                if not self.report().pending and self.variants:
                    break


class DirectCall(Protocol):
    """What `build_direct` returns."""

    def __call__(self, *inputs: Any) -> Any: ...

    def report(self) -> DirectReport:
        """What was specialised and planned up to now."""
        ...

    def may_write(self) -> frozenset[int]:
        """Positions of the inputs in whose memory the graph may write, once it has run."""
        ...


def build_direct(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    plans: bool = True,
    warm: bool | None = None,
    regraph: Callable[[Sequence[Any]], fx.GraphModule] | None = None,
) -> DirectCall:
    """Return a function that computes `gm` with as little host work as can be.

    It takes the graph's inputs by position (tensors and ints) and returns what the graph returns. The first
    call with inputs of a new kind (shapes, dtypes, strides, devices, alignment, scalars, global modes) runs
    the graph and notes what it does, the next ones record what its replacement functions do on the host; from
    then on straight code runs behind one check. With `plans` false replacement functions are called as
    written. `warm` does those first calls at once, on copies of `example_inputs` (default: if these are on a
    GPU, or the graph calls C++ kernels). `regraph` makes the graph for inputs of another kind; by default
    `gm` serves all. The function's `report()` is a DirectReport.
    """
    direct = Direct(gm, plans, regraph)
    if warm is None:
        warm = any(isinstance(value, torch.Tensor) and value.is_cuda for value in example_inputs)
        warm = warm or (bool(example_inputs) and calls_native_kernels(gm))
    if warm:
        direct.warm(example_inputs)
    direct.entry.report = direct.report  # type: ignore[attr-defined]
    direct.entry.may_write = direct.may_write  # type: ignore[attr-defined]
    return cast(DirectCall, direct.entry)
