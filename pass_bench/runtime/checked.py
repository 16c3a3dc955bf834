"""Callables that hold for one kind of inputs, behind the check of `validity`; more are made as needed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pass_bench.runtime.emit import Source, compile_function
from pass_bench.runtime.validity import Check, can_specialise

MOST_KINDS = 8
_labels = itertools.count()


@dataclass(frozen=True)
class _Kind:
    matches: Callable[..., bool]
    call: Callable[..., Any]


class Checked:
    """Calls what `make(inputs)` returned for inputs like these; `fallback` serves what cannot be checked.

    `entry` is the function to call: for the kind of inputs met first it costs the check and one call.
    `alignment`: whether inputs at differently aligned addresses are of different kinds.

    A callable with a method `straight(source, parameters, test, but_tensors)` writes lines of its own into
    that function, which return or go on to the check as usual. `test` is that check, `but_tensors` the part
    of it that is not about tensors. It calls its `changed` when they should be written anew.
    """

    def __init__(
        self,
        count: int,
        make: Callable[[tuple[Any, ...]], Callable[..., Any]],
        fallback: Callable[..., Any],
        alignment: bool = True,
    ) -> None:
        self._aligned = None if alignment else ()
        self._make = make
        self._fallback = fallback
        self._kinds: list[_Kind] = []
        self._first_test = ("", "")
        self._written: dict[str, Any] = {}
        self._versions = itertools.count()
        self._parameters = tuple(f"a{i}" for i in range(count))
        self._label = f"checked-{next(_labels)}"
        self._space: dict[str, Any] = {"__builtins__": __builtins__, "_miss": self._miss}
        code = compile_function("checked", self._parameters, [self._call_miss()], f"{self._label}-start")
        self.entry: Callable[..., Any] = FunctionType(code, self._space, "checked")

    def _call_miss(self) -> str:
        return f"return _miss(({', '.join(self._parameters)}{',' if len(self._parameters) == 1 else ''}))"

    def _miss(self, inputs: tuple[Any, ...]) -> Any:
        for kind in self._kinds:
            if kind.matches(*inputs):
                return kind.call(*inputs)
        if not all(can_specialise(value) for value in inputs):
            return self._fallback(*inputs)
        return self.prepare(inputs)(*inputs)

    def prepare(self, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        """Make the callable for inputs of a new kind; when there are too many, the second oldest goes."""
        first = not self._kinds
        check = Check(self._parameters, inputs, prefix="_check_")
        call = self._make(inputs)
        test = check.expression(self._aligned)
        matches = compile_function("matches", self._parameters, [f"return {test}"], f"{self._label}-check")
        space = {"__builtins__": __builtins__, **check.bound}
        self._kinds.append(_Kind(FunctionType(matches, space, "matches"), call))
        if len(self._kinds) > MOST_KINDS:
            del self._kinds[1]
        if first:
            self._first_test = test, " and ".join(check.but_tensors)
            self._space.update(check.bound, _call=call)
            self._write()
            if hasattr(call, "changed"):
                call.changed = self._write
        return call

    def _write(self) -> None:
        """Write the entry: the check of the first kind, then its straight code or a call."""
        call = self._space["_call"]
        source = Source(prefix=f"_{next(self._versions)}_")
        test, but_tensors = self._first_test
        lines = []
        if hasattr(call, "straight"):
            lines += call.straight(source, self._parameters, test, but_tensors)
        lines += [f"if {test}: return _call({', '.join(self._parameters)})", self._call_miss()]
        code = compile_function("checked", self._parameters, lines, self._label)
        self._space.update(source.bound)
        self.entry.__code__ = code  # type: ignore[attr-defined]
        for name in self._written:  # the code before is running at most in calls that are past its names
            self._space.pop(name, None)
        self._written = source.bound
