"""The trusted child: makes inputs, runs eager, keeps its outputs, compares what a candidate sends back.

It serves one graph after the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pass_bench.data import Graph, read_graph
from pass_bench.guard.audit import nudge
from pass_bench.results.records import Regime
from pass_bench.timing.interleave import clone_like
from pass_bench.verify.compare import Compared as Comparison
from pass_bench.verify.compare import changed_inputs, compare_outputs, largest_error, mismatch_of
from pass_bench.verify.float64 import run_in_float64
from pass_bench.verify.unordered import UnorderedSums
from pass_bench.verify.weak import weak_at, weaker
from pass_bench.worker.environment import probe
from pass_bench.worker.faults import describe, fault_of, one_line
from pass_bench.worker.memory import peak_bytes, trim
from pass_bench.worker.messages import (
    Compared,
    CompareRequest,
    Done,
    Drawn,
    DrawRequest,
    Fault,
    ForgetRequest,
    Leaf,
    ProbeRequest,
    ReferenceJob,
    ReferenceReply,
    ReferenceRequest,
    Summary,
)
from pass_bench.worker.payload import leaves_of, read_leaf, value_nbytes
from pass_bench.worker.protocol import Channel, ProtocolError
from pass_bench.worker.where import failing_call

RECORDED_BYTES = 256 << 20  # larger inputs are made anew each time
FLOAT64_LIMIT_NS = 2_000_000_000  # a slower graph is not run again in float64


@dataclass(frozen=True)
class Draw:
    """One run of eager: inputs before and after, outputs flattened, positions of the inputs it changed."""

    regime: Regime
    before: list[Any]
    after: list[Any]
    names: tuple[str, ...]
    outputs: list[Any]
    changed: tuple[int, ...]
    nonfinite: bool
    nanoseconds: int
    exact: list[Any] | None


class Reference:
    """Holds one graph and the draws made for it."""

    def __init__(self) -> None:
        self._device = "cpu"
        self._forget()

    def _forget(self) -> None:
        self._graph: Graph | None = None
        self._job: ReferenceJob | None = None
        self._module: Callable[..., Any] | None = None
        self._draw: Draw | None = None
        self._recorded: tuple[int, list[Any]] | None = None
        self._weak: int | None = None
        self._scored_draws = 0
        self._recorded_nonfinite = False
        self._unordered: tuple[str, ...] = ()
        self._slack: list[float] = []
        if self._device == "cuda":
            trim(self._device)

    def answer(self, request: Any, descriptor: int | None) -> Any:
        """Return the reply to one request."""
        if isinstance(request, ProbeRequest):
            return probe(request.device)
        if isinstance(request, ReferenceJob):
            return self._load(request)
        if isinstance(request, DrawRequest):
            return self._make_draw(request)
        if isinstance(request, CompareRequest):
            return self._compare(request, descriptor)
        if isinstance(request, ForgetRequest):
            self._forget()
            return Done()
        return self._summary()

    def _load(self, job: ReferenceJob) -> Any:
        from pass_bench.fx import load_module

        self._forget()
        self._job, self._device = job, job.device
        self._graph = read_graph(Path(job.graph_path))
        self._module = load_module(self._graph, job.device)
        return Done()

    def _make_draw(self, request: DrawRequest) -> Any:
        assert self._graph is not None and self._job is not None
        self._draw = None
        why = ""
        for seed in range(request.seed, request.seed + request.redraws + 1):
            try:
                draw = self._run(request.regime, seed, request)
            except Exception as error:
                if request.regime == "recorded":
                    return self._eager_fault(error, seed)
                why = f"eager raises {describe(error)}"
                continue
            if request.regime == "recorded":
                self._recorded_nonfinite = draw.nonfinite
            elif request.regime == "random" and draw.nonfinite and not self._recorded_nonfinite:
                why = "eager's outputs are not finite"
                continue
            self._keep(draw, request.light)
            return Drawn(
                seed=seed,
                outputs=len(draw.outputs),
                effects=draw.changed,
                payload_bytes=sum(map(value_nbytes, draw.outputs)) + sum(map(value_nbytes, draw.before)),
                nonfinite=draw.nonfinite,
                eager_ns=draw.nanoseconds,
                written_bytes=written_bytes(draw),
                unordered=self._unordered if self._slack else (),
            )
        tries = f" in {request.redraws + 1} draws" if request.redraws else ""
        return Drawn(seed=request.seed, skipped=f"{one_line(why)}{tries}")

    def _eager_fault(self, error: Exception, seed: int) -> Fault:
        assert self._graph is not None and self._job is not None and self._module is not None
        fault = fault_of(error, "eager_fail")
        inputs = make(self._graph, "recorded", seed, self._job.device)
        call = failing_call(self._module, inputs)
        return fault.model_copy(update={"reason": f"{call}: {fault.reason}"[:2000]}) if call else fault

    def _run(self, regime: Regime, seed: int, request: DrawRequest) -> Draw:
        assert self._graph is not None and self._job is not None and self._module is not None
        inputs = self._made(regime, seed)
        if request.nudge is not None:
            nudge(inputs, request.nudge)
        before = [copied(value) for value in inputs]
        torch.manual_seed(self._job.seed)
        state = rng_state(self._job.device)
        start = time.perf_counter_ns()
        with torch.no_grad():
            outputs = self._module(*inputs)
            wait(self._job.device)
        nanoseconds = time.perf_counter_ns() - start
        uses_rng = not torch.equal(state, rng_state(self._job.device))
        flat = list(leaves_of(outputs))
        changed = changed_inputs(before, inputs)
        values = [value for _, value in flat]
        checked = values + [inputs[place] for place in changed]
        exact = None
        judged = regime != "special" and not request.light
        if judged and not uses_rng and nanoseconds < FLOAT64_LIMIT_NS:
            exact = self._exact(before, len(flat))
        return Draw(
            regime=regime,
            before=before,
            after=inputs,
            names=tuple(name for name, _ in flat),
            outputs=values,
            changed=changed,
            nonfinite=any(not_finite(value) for value in checked),
            nanoseconds=nanoseconds,
            exact=exact,
        )

    def _made(self, regime: Regime, seed: int) -> list[Any]:
        """Make inputs; the recorded ones, asked for again and again, are made once and copied."""
        assert self._graph is not None and self._job is not None
        if regime != "recorded":
            return make(self._graph, regime, seed, self._job.device)
        if self._recorded is None or self._recorded[0] != seed:
            made = make(self._graph, regime, seed, self._job.device)
            if sum(map(value_nbytes, made)) > RECORDED_BYTES:
                return made
            self._recorded = seed, made
        return [copied(value) for value in self._recorded[1]]

    def _exact(self, inputs: Sequence[Any], count: int) -> list[Any] | None:
        assert self._module is not None
        with UnorderedSums() as sums:
            outputs = run_in_float64(self._module, inputs)
        self._unordered = tuple(sorted({*self._unordered, *sums.names}))
        values = [value for _, value in leaves_of(outputs)] if outputs is not None else []
        return values if len(values) == count else None

    def _keep(self, draw: Draw, light: bool) -> None:
        self._draw = draw
        if draw.regime == "special" or light:
            return
        if self._unordered and draw.exact is not None:
            # Two runs of eager are both about as far from the exact result, and so twice as far apart.
            errors = [2 * error_of(one, exact) for one, exact in zip(draw.outputs, draw.exact, strict=True)]
            self._slack = [max(pair) for pair in zip(errors, self._slack or errors, strict=True)]
        expected = [*draw.outputs, *(draw.after[place] for place in draw.changed)]
        level = weak_at(expected, draw.before)
        self._weak = level if self._scored_draws == 0 else weaker(self._weak, level)
        self._scored_draws += 1

    def _compare(self, request: CompareRequest, descriptor: int | None) -> Any:
        assert self._draw is not None and self._job is not None and self._graph is not None
        draw, payload = self._draw, request.payload
        device = self._job.device
        actual = [read_leaf(leaf, descriptor, device) for leaf in payload.outputs]
        claimed = {position_of(leaf, len(draw.before)): leaf for leaf in payload.effects}
        compat, enough = self._job.compat, request.enough
        result = compare_outputs(
            actual,
            draw.outputs,
            draw.names,
            exact=draw.exact,
            compat=compat,
            enough=enough,
            slack=() if compat or len(self._slack) != len(draw.outputs) else self._slack,
        )
        places = sorted({*draw.changed, *claimed})
        after = [
            read_leaf(claimed[place], descriptor, device) if place in claimed else draw.before[place]
            for place in places
        ]
        names = [f"effect on {self._graph.arguments[place].name}" for place in places]
        effects = compare_outputs(
            after, [draw.after[place] for place in places], names, compat=compat, enough=enough
        )
        for value, expected in zip([*actual, *after], [*draw.outputs, *draw.after], strict=False):
            if isinstance(value, torch.Tensor) and value.is_meta and not mismatch_of(value, expected)[0]:
                raise ProtocolError("an output of the right shape came without its bytes")
        return reply_of(result, effects)

    def _summary(self) -> Summary:
        assert self._draw is not None and self._job is not None and self._module is not None
        assert self._graph is not None
        torch.manual_seed(self._job.seed)
        inputs = make(self._graph, "recorded", 123, self._job.device)
        peak = peak_bytes(self._module, inputs, self._job.device)
        return Summary(weak_at=self._weak, eager_peak_bytes=peak)


def written_bytes(draw: Draw) -> int:
    """Return the bytes of outputs that share no memory with an input: what any correct kernel must write."""
    given = {value.untyped_storage().data_ptr() for value in draw.after if isinstance(value, torch.Tensor)}
    total: dict[int, int] = {}
    limit: dict[int, int] = {}
    for value in draw.outputs:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            storage = value.untyped_storage()
            total[storage.data_ptr()] = total.get(storage.data_ptr(), 0) + value_nbytes(value)
            limit[storage.data_ptr()] = storage.nbytes()
    return sum(min(nbytes, limit[place]) for place, nbytes in total.items() if place not in given)


def reply_of(outputs: Comparison, effects: Comparison) -> Compared:
    """Combine the comparison of the outputs with that of the changed inputs."""
    levels = (outputs.passes_from, effects.passes_from)
    return Compared(
        tensors=(*outputs.reports, *effects.reports),
        passes_from=None if None in levels else max(level for level in levels if level is not None),
        mismatch=outputs.mismatch or effects.mismatch,
        reason=outputs.reason or effects.reason,
    )


def position_of(leaf: Leaf, count: int) -> int:
    """Return which input a leaf called "input[3]" is; raises ProtocolError."""
    digits = leaf.where.removeprefix("input[").removesuffix("]")
    if not (digits.isascii() and digits.isdigit() and int(digits) < count):
        raise ProtocolError(f"{leaf.where[:60]!r} is no input")
    return int(digits)


def make(graph: Graph, regime: Regime, seed: int, device: str) -> list[Any]:
    """Make the inputs of a regime on a device."""
    from pass_bench.inputs import make_inputs

    return list(make_inputs(graph, regime, seed, device))


def error_of(value: Any, exact: Any) -> float:
    """Return max |value - exact|, 0 for what are not tensors of one shape."""
    both = isinstance(value, torch.Tensor) and isinstance(exact, torch.Tensor)
    return largest_error(value, exact) or 0.0 if both and value.shape == exact.shape else 0.0


def copied(value: Any) -> Any:
    """Copy a tensor, with its strides; what else there is does not change."""
    return clone_like(value) if isinstance(value, torch.Tensor) else value


def not_finite(value: object) -> bool:
    """Whether a value is a floating-point tensor with NaN or inf in it."""
    if isinstance(value, float):
        return value != value or value in (float("inf"), float("-inf"))
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    # A sum is twenty times as quick as a look at each; one that overflows says nothing.
    total = value.sum(dtype=torch.float32 if value.dtype.itemsize < 4 else value.dtype)
    return not (bool(total.isfinite()) or bool(value.isfinite().all()))


def rng_state(device: str) -> torch.Tensor:
    """Return the state of the generators that a graph on this device could draw from."""
    states = [torch.get_rng_state()]
    if device == "cuda":
        states.append(torch.cuda.get_rng_state())
    return torch.cat(states)


def wait(device: str) -> None:
    """Wait for the device; raises what its work raised."""
    if device == "cuda":
        torch.cuda.synchronize()


def main(channel: Channel, threads: int) -> None:
    """Answer requests until the supervisor closes the channel."""
    reference = Reference()
    while True:
        envelope, descriptors = channel.receive(ReferenceRequest)
        try:
            reply = reference.answer(envelope.request, descriptors[0] if descriptors else None)
        except ProtocolError as error:
            reply = Fault(fault="runtime_fail", reason=one_line(str(error)))
        except Exception as error:
            kind = "eager_fail" if isinstance(envelope.request, ReferenceJob | DrawRequest) else "infra"
            reply = fault_of(error, kind)  # type: ignore[arg-type]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        channel.send(ReferenceReply(reply=reply))
