"""One call of the rewritten graph with every guard on, in the child that runs the pass."""

from __future__ import annotations

import contextlib
import ctypes
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pass_bench.guard.dispatch import DispatchGuard, replacement_codes
from pass_bench.guard.flags import changed_flags, python_threads, read_flags
from pass_bench.guard.kernel_log import MAX_GHOSTS, KernelLog
from pass_bench.guard.snapshots import Snapshot
from pass_bench.results.records import Violation
from pass_bench.timing.interleave import clone_like

LATE_S = 0.01
_CYCLES_PER_S = 2_000_000_000
_SLEEP_S = 0.1, 1.0  # at least, at most
_LOOKS = 10  # that should fit into it, however slow other processes make them
_LOOK_EVERY_S = 0.005


@dataclass(frozen=True)
class GuardedRun:
    """What the guards saw: broken rules, kernels launched, what the call returned, its inputs after it."""

    violations: tuple[Violation, ...]
    kernels: tuple[str, ...]
    outputs: Any
    inputs: list[Any]


class Baseline:
    """The process before any pass was loaded."""

    def __init__(self, code: str):
        self._code = code
        self._snapshot = Snapshot()
        self._flags = read_flags(code)
        self._threads = set(python_threads())

    def changes(self) -> tuple[Violation, ...]:
        """What passes have changed in the process since."""
        found = [*self._snapshot.changes(), *changed_flags(self._flags, read_flags(self._code))]
        started = [thread.name for thread in python_threads() if thread not in self._threads]
        if started:
            why = f"{len(started)} threads were left running: {', '.join(started)[:200]}"
            found.append(Violation(rule="threads", why=why))
        return tuple(found)


def guarded_run(
    plain: Callable[..., Any],
    eager: Callable[..., Any],
    draw: Callable[[], list[Any]],
    functions: Iterable[Any],
    pass_dirs: Sequence[Path],
    *,
    seed: int,
    device: str,
    ghosts: bool = True,
) -> GuardedRun:
    """Run `plain` (the rewritten graph as written, no launch plans) under the guards.

    `draw` makes fresh copies of the same inputs on every call; `functions` are the replacement functions.
    Outputs are those of a call in which all uninitialised memory was poisoned. With `ghosts`, each kernel (of
    more than MAX_GHOSTS, so many) is left out in turn, and outputs that do not change are a violation. Raises
    what the pass raises.
    """
    codes, violations = replacement_codes(functions, pass_dirs)
    wait = torch.cuda.synchronize if device == "cuda" else _nothing
    log = KernelLog()

    def call(silenced: str = "") -> tuple[list[Any], Any]:
        inputs = draw()
        torch.manual_seed(seed)
        guard = DispatchGuard(pass_dirs, codes)
        with torch.no_grad(), log.watching(silenced), guard:
            outputs = plain(*inputs)
        wait()
        violations.extend(guard.operators.values())
        return inputs, outputs

    inputs, outputs = call()
    violations += _late(inputs, outputs, wait)
    if device == "cuda":
        violations += _off_stream(plain, eager, draw, seed)
    first = _tensors(outputs)
    kept = [clone_like(value) for value in first]
    violations += _aliases(eager, draw, inputs, outputs, seed)
    more_inputs, more = call()
    if _shared(first, _tensors(more)):
        violations.append(Violation(rule="reused-output", why="two calls return the same memory"))
    if not all(_same(one, other) for one, other in zip(kept, first, strict=True)):
        violations.append(
            Violation(rule="reused-output", why="a later call changed an earlier call's output")
        )
    if ghosts:
        expected = [*map(clone_like, _tensors(more)), *map(clone_like, _tensors(more_inputs))]
        for name in _to_silence(list(log.launches)):
            violations += _ghost(call, name, expected)
    return GuardedRun(tuple(dict.fromkeys(violations)), tuple(log.launches), outputs, inputs)


def _off_stream(
    plain: Callable[..., Any], eager: Callable[..., Any], draw: Callable[[], list[Any]], seed: int
) -> list[Violation]:
    """Work of the pass must wait for the stream that it was called on.

    That stream is kept asleep; outputs that are right while it still sleeps were computed on another one,
    unless eager's are right then too: views need no work. Says nothing where the pass waits for the stream.
    """
    expected = _tensors(eager(*draw()))
    if _right_while_asleep(plain, draw, expected, seed) and not _right_while_asleep(
        eager, draw, expected, seed
    ):
        return [Violation(rule="off-stream", why="outputs were ready while the current stream still slept")]
    return []


def _right_while_asleep(
    function: Callable[..., Any], draw: Callable[[], list[Any]], expected: list[torch.Tensor], seed: int
) -> bool:
    inputs = draw()
    torch.cuda.synchronize()
    with _stream() as asleep, _stream() as looking:
        return _ready_in_sleep(function, inputs, expected, seed, asleep, looking)


def _ready_in_sleep(
    function: Callable[..., Any],
    inputs: list[Any],
    expected: list[torch.Tensor],
    seed: int,
    asleep: torch.cuda.Stream,
    looking: torch.cuda.Stream,
) -> bool:
    look_s = 0.0
    for _ in range(2):  # the first look may load kernels
        start = time.perf_counter()
        with torch.cuda.stream(looking):
            first = [clone_like(value) for value in expected]
            looking.synchronize()
            list(map(_close_to, first, expected))
        look_s = time.perf_counter() - start + _LOOK_EVERY_S
    sleep_s = min(max(_SLEEP_S[0], _LOOKS * look_s), _SLEEP_S[1])
    torch.manual_seed(seed)
    with torch.no_grad(), torch.cuda.stream(asleep):
        torch.cuda._sleep(int(sleep_s * _CYCLES_PER_S))  # type: ignore[attr-defined]
        outputs = _tensors(function(*inputs))
    if not any(value.numel() and value.is_cuda for value in outputs):
        return False
    try:
        while True:  # work elsewhere may come late
            with torch.cuda.stream(looking):
                copies = [clone_like(value) for value in outputs]
                looking.synchronize()
                if asleep.query():
                    return False
                if all(map(_close_to, copies, expected)):
                    return True
            time.sleep(_LOOK_EVERY_S)
    finally:
        torch.cuda.synchronize()


@contextlib.contextmanager
def _stream() -> Iterator[torch.cuda.Stream]:
    """A stream that is gone afterwards: torch's own come 32 at a time and stay, and every later wait for the
    device takes longer by them.
    """
    runtime, handle = torch.cuda.cudart(), ctypes.c_void_p()
    runtime.cudaStreamCreate(ctypes.addressof(handle))
    assert handle.value is not None
    try:
        yield torch.cuda.ExternalStream(handle.value)
    finally:
        torch.cuda.synchronize()
        runtime.cudaStreamDestroy(handle.value)


def _close_to(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.allclose(one, other, 1e-2, 1e-2)


def _to_silence(names: list[str]) -> list[str]:
    """All kernels, or as many as there is time for, drawn so that no decoy can hide behind others."""
    return names if len(names) <= MAX_GHOSTS else secrets.SystemRandom().sample(names, MAX_GHOSTS)


def _ghost(
    call: Callable[[str], tuple[list[Any], Any]], name: str, expected: list[torch.Tensor]
) -> list[Violation]:
    with contextlib.suppress(Exception):  # without its kernel a pass may well fail: that too is a change
        inputs, outputs = call(name)
        actual = [*_tensors(outputs), *_tensors(inputs)]
        if len(actual) == len(expected) and all(map(_same, actual, expected)):
            why = f"the outputs are the same without {name}: it does no work"
            return [Violation(rule="decoy-kernel", why=why)]
    return []


def _late(inputs: list[Any], outputs: Any, wait: Callable[[], None]) -> list[Violation]:
    """Outputs and inputs must be final when the call returns (and the device is idle)."""
    watched = [*_tensors(outputs), *_tensors(inputs)]
    before = [clone_like(value) for value in watched]
    time.sleep(LATE_S)
    wait()
    if all(map(_same, before, watched)):
        return []
    return [Violation(rule="late-work", why="outputs changed after the call had returned")]


def _aliases(
    eager: Callable[..., Any], draw: Callable[[], list[Any]], inputs: list[Any], outputs: Any, seed: int
) -> list[Violation]:
    """Outputs may share memory with inputs only where eager's do."""
    theirs = draw()
    torch.manual_seed(seed)
    with torch.no_grad():
        expected = _tensors(eager(*theirs))
    found = []
    for place, value in enumerate(_tensors(outputs)):
        for position, given in enumerate(inputs):
            if not isinstance(given, torch.Tensor) or not _overlap(value, given):
                continue
            if place < len(expected) and _overlap(expected[place], theirs[position]):
                continue
            why = f"output {place} is the memory of input {position}; eager's is not"
            found.append(Violation(rule="aliased-output", why=why))
    return found


def _tensors(value: Any, depth: int = 0) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list) and depth < 20:
        return [tensor for item in value for tensor in _tensors(item, depth + 1)]
    return []


def _shared(ours: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return any(_overlap(one, other) for one in ours for other in others)


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.numel() == 0 or other.numel() == 0 or one.layout != torch.strided or other.layout != torch.strided:
        return False
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    from pass_bench.verify.compare import same_bits

    return one.shape == other.shape and one.dtype == other.dtype and same_bits(one, other)


def _nothing() -> None:
    """The CPU has nothing to wait for."""
