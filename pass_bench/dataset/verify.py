"""Does a graph deserve its place: it runs, says something, says it again, and cannot be guessed."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pass_bench.data.records import Argument, Graph
from pass_bench.dataset.children import fork
from pass_bench.dataset.plan import PlannedGraph

WEAK_AT = -3
_CPU_SECONDS = 60  # of the child, not of the clock: what else the machine does must not decide
_CHUNK = 400
_MEMORY_GIB = 8
_SAMPLED = 1000


def graph_of(planned: PlannedGraph) -> Graph:
    """The graph as it would be read from its directory."""
    return Graph(
        path=Path(planned.path),
        name=planned.name,
        code=planned.code,
        arguments=tuple(Argument(meta.name, "tensor") for meta in planned.metas),
        metas={meta.name: meta for meta in planned.metas},
    )


class Drawn:
    """Inputs of the graph at hand; its variants in other float types get the same numbers, cast."""

    def __init__(self) -> None:
        self.key: tuple[object, ...] = ()
        self.inputs: list[Any] = []

    def of(self, planned: PlannedGraph) -> list[Any]:
        """The recorded inputs of a graph, to be cloned before a run."""
        import torch

        from pass_bench.inputs import make_inputs

        key = (planned.library, planned.model, planned.start, planned.end, planned.dim)
        names = [meta.name for meta in planned.metas]
        if key != self.key or len(names) != len(self.inputs):
            self.key, self.inputs = key, make_inputs(graph_of(planned))
        cast = zip(self.inputs, planned.metas, strict=True)
        return [v.to(getattr(torch, m.dtype)) if v.is_floating_point() else v for v, m in cast]


def reason_to_drop(planned: PlannedGraph, drawn: Drawn | None = None) -> str | None:
    """Why a graph is not worth having, or None.

    It must pass the source check, run in eager on the CPU, give only finite floats, not only constants, the
    same again from the same inputs, and nothing that zeros, a mean or an input passed through would match at
    t = -3.
    """
    import torch

    from pass_bench.errors import BadInput
    from pass_bench.fx.load import load_module
    from pass_bench.verify.weak import weak_at

    try:
        module = load_module(graph_of(planned))
    except BadInput as error:
        return f"source: {error.what.split(':')[0]}"
    inputs = (drawn or Drawn()).of(planned)
    inputs = [value.clone() for value in inputs]
    fresh = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    kept = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    runs = []
    for arguments in (inputs, kept):
        torch.manual_seed(1024)
        try:
            with torch.no_grad():
                runs.append(_tensors(module(*arguments)))
        except Exception as error:
            return f"does not run: {type(error).__name__}"
    first, second = runs
    if not first:
        return "no tensor output"
    floats = [output for output in first if output.is_floating_point()]
    if not all(bool(torch.isfinite(output).all()) for output in floats):
        return "not finite"
    if all(_is_constant(output) for output in first):
        return "constant"
    if not all(torch.equal(one, two) for one, two in zip(first, second, strict=True)):
        return "not deterministic"
    if not all(_may_be_weak(output, fresh) for output in first):
        return None
    weak = weak_at(first, fresh)
    return "weak" if weak is not None and weak <= WEAK_AT else None


def reason_not_to_evaluate(planned: PlannedGraph, _: Drawn | None = None) -> str | None:
    """Why a graph that may be trained on is no evaluation, or None.

    An answer is also judged on random inputs: eager must run on them, and give finite floats. The harness
    draws again where it does not; graphs that need that are not taken.
    """
    import torch

    from pass_bench.fx.load import load_module
    from pass_bench.inputs import draw_seeds, make_inputs

    graph = graph_of(planned)
    module = load_module(graph)
    (seed,) = draw_seeds(0, 1)
    torch.manual_seed(1024)
    try:
        with torch.no_grad():
            outputs = _tensors(module(*make_inputs(graph, "random", seed)))
    except Exception as error:
        return f"does not run on random inputs: {type(error).__name__}"
    finite = all(bool(torch.isfinite(output).all()) for output in outputs if output.is_floating_point())
    return None if finite else "not finite on random inputs"


def _may_be_weak(expected: Any, inputs: Sequence[Any]) -> bool:
    """Whether zeros, the mean or an input agree with every 97th element at t = -3: if not, none is right."""
    import torch

    from pass_bench.verify.compare import dtype_name, tolerance

    if not expected.is_floating_point() or expected.numel() < _SAMPLED:
        return True
    atol, rtol = tolerance(expected.dtype, WEAK_AT)
    sample = expected.reshape(-1)[::97].double()
    guesses = [torch.zeros_like(sample), torch.full_like(sample, float(expected.double().mean()))]
    for value in inputs:
        same = isinstance(value, torch.Tensor) and value.shape == expected.shape
        if same and dtype_name(value.dtype) == dtype_name(expected.dtype):
            guesses.append(value.reshape(-1)[::97].double())
    return any(bool(torch.isclose(guess, sample, rtol=rtol, atol=atol).all()) for guess in guesses)


def _tensors(outputs: Any) -> list[Any]:
    import torch

    outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
    return [output for output in outputs if isinstance(output, torch.Tensor)]


def _is_constant(output: Any) -> bool:
    return output.numel() == 0 or bool((output == output.reshape(-1)[0]).all())


Reason = Callable[[PlannedGraph, Drawn | None], str | None]


def read_verified(path: Path) -> dict[str, str | None]:
    """What was found so far, by uid; a line that was cut off is ignored."""
    found: dict[str, str | None] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[entry["uid"]] = entry["reason"]
    return found


def verify(
    graphs: Iterable[PlannedGraph],
    path: Path,
    *,
    reason: Reason = reason_to_drop,
    report: Callable[[str], None] = print,
) -> dict[str, str | None]:
    """Verify the graphs that `path` has no line for, in forked children; returns reasons by uid.

    One line per graph is appended as it is done. A graph that kills its child twice or runs too long is
    dropped with that reason.
    """
    import torch

    import pass_bench.fx.load
    import pass_bench.inputs
    import pass_bench.verify.weak  # noqa: F401

    torch.set_num_threads(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    _end_last_line(path)
    found = read_verified(path)
    waiting = (graph for graph in graphs if graph.uid not in found)
    done = 0
    while chunk := list(islice(waiting, _CHUNK)):
        chunk = list({graph.uid: graph for graph in chunk}.values())
        suspect = ""
        while chunk:
            _run_child(chunk, path, reason)
            found = read_verified(path)
            left = [graph for graph in chunk if graph.uid not in found]
            if left and left[0].uid == suspect:
                _append(path, suspect, "kills its process")
                found[suspect] = "kills its process"
                left = left[1:]
            suspect = left[0].uid if left else ""
            done += len(chunk) - len(left)
            chunk = left
        report(f"{done} graphs verified")
    return found


def _run_child(chunk: Sequence[PlannedGraph], path: Path, reason: Reason) -> None:
    pid = fork()
    if pid:
        os.waitpid(pid, 0)
        return
    try:
        memory = _MEMORY_GIB << 30
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        signal.signal(signal.SIGPROF, _too_long)
        drawn = Drawn()
        for graph in chunk:
            used = int(time.process_time()) + 2 * _CPU_SECONDS  # for what does not come back to Python
            resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
            signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
            try:
                found = reason(graph, drawn)
            except _TooLong:
                found = "takes too long"
            except Exception as error:
                found = f"fails: {type(error).__name__}"
            signal.setitimer(signal.ITIMER_PROF, 0)
            _append(path, graph.uid, found)
    finally:
        os._exit(0)


class _TooLong(BaseException):
    """Not an Exception: what a graph raises by itself is one."""


def _too_long(*_: object) -> None:
    raise _TooLong


def _end_last_line(path: Path) -> None:
    """After a kill the last line may lack its end; what is appended must not become a part of it."""
    if path.exists() and path.stat().st_size:
        with path.open("rb+") as file:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")


def _append(path: Path, uid: str, reason: str | None) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"uid": uid, "reason": reason}) + "\n")
