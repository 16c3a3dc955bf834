"""Replaying must never give a stale result, overwrite an output in use, or lose an effect on an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.replay import SETTLED_AFTER, Replay


class Recorder:
    """Stands in for CUDA graphs: a replay reads and writes the very memory that the recording saw."""

    def __init__(self) -> None:
        self.recordings = 0

    def __call__(
        self, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> tuple[Any, Callable[[], None]]:
        self.recordings += 1
        kept = fresh_copies(arguments)
        outputs = function(*arguments)
        for value, before in zip(arguments, kept, strict=True):  # recording runs nothing
            if isinstance(value, torch.Tensor):
                value.copy_(before)
        # Like a graph, hold memory and not tensors: aliases keep the storages but not the caller's objects.
        places = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
        results = [x for x in tree_flatten(outputs)[0] if isinstance(x, torch.Tensor)]
        own = [x.data_ptr() for x in results]

        def replay() -> None:
            made = [x for x in tree_flatten(function(*places))[0] if isinstance(x, torch.Tensor)]
            for address, value in zip(own, made, strict=True):
                if address != value.data_ptr():
                    _write(address, value)

        return outputs, replay


def _write(address: int, value: torch.Tensor) -> None:
    import ctypes

    value = value.contiguous()
    ctypes.memmove(address, value.data_ptr(), value.numel() * value.element_size())


def replayed(function: Callable[..., Any], *inputs: torch.Tensor, written: Sequence[int] = ()) -> Any:
    recorder = Recorder()
    replay = Replay(function, inputs, lambda: frozenset(written), record=recorder)
    return replay, recorder


def test_results_follow_the_inputs() -> None:
    replay, recorder = replayed(lambda x, y: x * y, torch.ones(3), torch.ones(3))
    x, y = torch.tensor([1.0, 2, 3]), torch.tensor([2.0, 2, 2])
    assert replay(x, y).tolist() == [2, 4, 6]
    x.add_(1)
    assert replay(x, y).tolist() == [4, 6, 8]
    assert replay.copied == ()
    assert recorder.recordings == 1


def test_an_input_at_another_address_is_copied() -> None:
    replay, _ = replayed(lambda x, y: x + y, torch.ones(3), torch.ones(3))
    y = torch.zeros(3)
    kept = [torch.full((3,), float(i)) for i in range(6)]
    for i, x in enumerate(kept):
        assert replay(x, y).tolist() == [i] * 3
    assert replay.copied == (0,)


def test_an_input_that_settles_is_read_where_it_is() -> None:
    replay, recorder = replayed(lambda x: x + 1, torch.ones(3))
    a, b = torch.zeros(3), torch.ones(3)
    assert replay(a).tolist() == [1] * 3
    for call in range(SETTLED_AFTER + 3):
        b.fill_(call)
        assert replay(b).tolist() == [call + 1] * 3
    assert replay.copied == ()
    assert recorder.recordings == 3
    assert replay(a).tolist() == [1] * 3


def test_one_input_may_settle_while_another_moves() -> None:
    replay, _ = replayed(lambda x, y: x - y, torch.ones(3), torch.ones(3))
    replay(torch.zeros(3), torch.zeros(3))
    kept, steady = [], torch.ones(3)
    for call in range(SETTLED_AFTER + 3):
        kept.append(torch.full((3,), float(call)))
        assert replay(kept[-1], steady).tolist() == [call - 1] * 3
    assert replay.copied == (0,)


def test_outputs_in_use_are_not_overwritten() -> None:
    replay, recorder = replayed(lambda x: (x + 1, x[None] * 2), torch.ones(3))
    x = torch.zeros(3)
    held = []
    for call in range(7):
        x.fill_(call)
        held.append(replay(x))
    for call, (one, two) in enumerate(held):
        assert one.tolist() == [call + 1] * 3
        assert two.tolist() == [[2 * call] * 3]
    assert recorder.recordings == 3
    part = held[0][1][0]
    del held
    for call in range(4):
        replay(x.fill_(call))
    assert part.tolist() == [0] * 3  # a view holds the memory as well


def test_one_output_at_a_time_needs_no_copies() -> None:
    replay, recorder = replayed(lambda x: x + 1, torch.ones(3))
    x = torch.zeros(3)
    addresses = set()
    for _ in range(10):
        out = replay(x)
        addresses.add(out.data_ptr())
    assert len(addresses) == 2
    assert recorder.recordings == 2


@pytest.mark.parametrize("moving", [False, True])
def test_effects_on_inputs_reach_the_caller(moving: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.add_(y), x[1:], y

    replay, _ = replayed(function, torch.ones(3), torch.ones(3), written=[0])
    x = torch.zeros(3)
    kept = []
    for call in range(4):
        if moving:
            kept.append(x)
            x = torch.full((3,), float(call))
        y = torch.ones(3)
        kept.append(y)
        total, tail, same = replay(x, y)
        assert x.tolist() == [call + 1] * 3
        assert total is x
        assert same is y
        assert tail.data_ptr() == x[1:].data_ptr()
        assert tail.tolist() == [call + 1] * 2


def test_what_cannot_be_recorded_runs_as_it_is() -> None:
    def refuse(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    replay = Replay(lambda x: x + 1, [torch.ones(2)], frozenset, record=refuse)
    assert replay(torch.ones(2)).tolist() == [2, 2]
    assert replay.why_plain == "it cannot be captured: operation not permitted when stream is capturing"


def test_cpu_inputs_are_never_recorded() -> None:
    replay = Replay(lambda x: x + 1, [torch.ones(2)], frozenset)
    assert replay.why_plain == "an input is not on the GPU"
    assert replay(torch.ones(2)).tolist() == [2, 2]
