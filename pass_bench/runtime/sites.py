"""The calls of replacement functions in a graph, each on its way to a plan or to a reason why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from pass_bench.runtime.observe import is_replacement
from pass_bench.runtime.plan import Plan, same
from pass_bench.runtime.purity import HostCode, Impure, examine
from pass_bench.runtime.record import record

INTERPRETED = "InterpretedFunction"
MOST_RECORDINGS = 4


class Site:
    """One call of a replacement function: open until two recordings agree, or something forbids a plan."""

    def __init__(self, node: fx.Node, settled: Callable[[], None]) -> None:
        self.node = node
        self.function: Any = node.target
        self.name = getattr(self.function, "__name__", type(self.function).__name__)
        self.plan: Plan | None = None
        self.why_unplanned = ""
        self.host = HostCode()
        self._settled = settled
        self._last: Plan | None = None
        self._recordings = 0
        try:
            self.host = examine(self.function)
        except Impure as why:
            self.why_unplanned = str(why)
        except Exception as error:  # host code odd enough to break its examination is not planned
            self.why_unplanned = f"it cannot be examined: {type(error).__name__}: {error}"
        if node.kwargs:
            self.why_unplanned = "it is called with keyword arguments"

    @property
    def open(self) -> bool:
        """Whether it takes more recordings to know."""
        return self.plan is None and not self.why_unplanned

    def give_up(self, why: str) -> None:
        """Run as written from now on."""
        self.plan, self.why_unplanned = None, why

    def call(self, *args: Any) -> Any:
        """Run the function as written; while the site is open, record it."""
        if not self.open:
            return self.function(*args)
        result, plan, refused = record(self.function, args)
        self._recordings += 1
        if plan is None:
            self.give_up(refused)
        elif self._last is not None and same(plan, self._last):
            self.plan = plan
        elif self._recordings >= MOST_RECORDINGS:
            self.give_up("it does something else every time it is recorded")
        self._last = plan
        if not self.open:
            self._settled()
        return result


def calls_native_kernels(gm: fx.GraphModule) -> bool:
    """Whether a graph has replacement functions, and none with an interpreted kernel, which takes long."""
    functions = [node.target for node in gm.graph.nodes if is_replacement(node)]
    try:
        kernels = [kernel for function in functions for kernel in examine(function).kernels]
    except Exception:  # impure, or odd enough to break the examination; a Site keeps the reason
        return False
    return bool(functions) and not any(type(kernel).__name__ == INTERPRETED for kernel in kernels)
