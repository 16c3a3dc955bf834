"""Replaying must never give a stale result, overwrite an output in use, or lose an effect on an input."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import partialmethod
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_flatten

from pass_bench.runtime import replay as replay_module
from pass_bench.runtime.checked import Checked
from pass_bench.runtime.cuda_graph import Recorded
from pass_bench.runtime.emit import written_source
from pass_bench.runtime.fresh import fresh_copies
from pass_bench.runtime.recorded import Launch
from pass_bench.runtime.replay import SETTLED_AFTER, Replay

GRAPH, CONTEXT = 1234, 77  # handles of a driver that is not there
CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint64))


class Recorder:
    """Stands in for CUDA graphs: a replay reads and writes the very memory that the recording saw."""

    def __init__(self, launches: bool = False) -> None:
        self.recordings = self.launched = 0
        self.launches, self.context = launches, CONTEXT
        self._kept: list[Any] = []

    def __call__(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Recorded:
        self.recordings += 1
        kept = fresh_copies(arguments)
        outputs = function(*arguments)
        for value, before in zip(arguments, kept, strict=True):  # recording runs nothing
            if isinstance(value, torch.Tensor) and not torch.equal(value, before):
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

        return Recorded(outputs, replay, self.launch(replay) if self.launches else None)

    def launch(self, replay: Callable[[], None]) -> Launch:
        """Has the native call replay it, as it would call the driver."""

        def launched(graph: int, stream: int) -> int:
            assert graph == GRAPH
            self.launched += 1
            replay()
            return 0

        def current(out: Any) -> int:
            out[0] = self.context
            return 0

        functions = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64)(launched),
            CURRENT(current),
        )
        self._kept.append(functions)
        return Launch(GRAPH, CONTEXT, *(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions))


def _write(address: int, value: torch.Tensor) -> None:
    import ctypes

    value = value.contiguous()
    ctypes.memmove(address, value.data_ptr(), value.numel() * value.element_size())


class Entry:
    """A replay called through the function that `Checked` writes for it, as compilers call it."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any], written: Sequence[int]) -> None:
        self.recorder = Recorder()
        self.replay = Replay(function, inputs, lambda: frozenset(written), record=self.recorder)
        checked = Checked(len(inputs), lambda kind: self.replay, function, alignment=False)
        checked.prepare(tuple(inputs))
        self.entry = checked.entry
        self.general = 0  # calls that the straight code left to the replay
        plain = self.replay._replayed

        def counted(values: tuple[Any, ...]) -> Any:
            self.general += 1
            return plain(values)

        self.replay._replayed = counted  # type: ignore[method-assign]

    @property
    def copied(self) -> tuple[int, ...]:
        return self.replay.copied

    @property
    def source(self) -> str:
        return written_source(self.entry.__code__)

    def __call__(self, *inputs: Any) -> Any:
        return self.entry(*inputs)


@pytest.fixture(autouse=True, params=["native", "launch", "python", "grad"])
def checks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The straight code's checks: one native call, which may launch as well, or Python terms, as where
    gradients are recorded."""
    monkeypatch.setattr(Recorder, "__init__", partialmethod(Recorder.__init__, request.param == "launch"))
    if request.param == "python":
        monkeypatch.setattr(replay_module, "native_replay", lambda: None)
    with torch.set_grad_enabled(request.param == "grad"):
        yield request.param


def replayed(function: Callable[..., Any], *inputs: torch.Tensor, written: Sequence[int] = ()) -> Any:
    entry = Entry(function, inputs, written)
    return entry, entry.recorder


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


def test_inputs_elsewhere_for_a_few_calls_void_no_recording() -> None:
    replay, recorder = replayed(lambda x, y: x + y, torch.ones(3), torch.ones(3))
    x, y = torch.zeros(3), torch.ones(3)
    others = [torch.full((3,), float(i)) for i in range(2, 6)]
    for round_number in range(3):
        general = replay.general
        assert replay(x, y).tolist() == [1] * 3
        assert replay.general - general == (round_number == 0)
        for other in others:
            assert replay(other, y).tolist() == [other[0] + 1] * 3
            assert 0 in replay.copied
        assert replay(other, x).tolist() == [5] * 3
        assert replay.copied == (0, 1)
    before = recorder.recordings, replay.general
    for call in range(4):
        assert replay(x.fill_(call), y).tolist() == [call + 1] * 3
    assert (recorder.recordings, replay.general) == before


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


def test_a_call_at_recorded_addresses_is_straight_code(checks: str) -> None:
    replay, recorder = replayed(
        lambda x, y: (x + y, [y[1:], x, 7], {"a": x * y}), torch.ones(3), torch.ones(3)
    )
    x, y = torch.zeros(3), torch.ones(3)
    out = replay(x, y)
    assert replay.general == 1
    for call in range(5):
        x.fill_(call)
        out = replay(x, y)  # the one before is in use until this is assigned
        assert out[0].tolist() == [call + 1] * 3
        assert out[1][0].data_ptr() == y[1:].data_ptr()
        assert out[1][1] is x
        assert out[1][2] == 7
        assert out[2]["a"].tolist() == [call] * 3
    assert replay.general == 2  # the first call of each recording
    assert recorder.recordings == 2
    by_address = f"a0.data_ptr() == {x.data_ptr()} and a1.data_ptr() == {y.data_ptr()} and "
    assert (by_address in replay.source) == (checks in ("python", "grad"))
    assert ("native" in replay.source) == (checks in ("native", "launch"))


def test_the_native_call_launches_in_the_context_of_the_recording_alone(checks: str) -> None:
    replay, recorder = replayed(lambda x: x + 1, torch.ones(3))
    x = torch.zeros(3)
    for call in range(4):
        assert replay(x.fill_(call)).tolist() == [call + 1] * 3
    if checks != "launch":
        assert recorder.launched == 0
        return
    assert recorder.launched == 3  # all but the first, which records
    recorder.context = CONTEXT + 1
    assert replay(x.fill_(7)).tolist() == [8] * 3
    assert recorder.launched == 3


def test_one_tensor_given_out_twice_stays_one() -> None:
    def function(x: torch.Tensor) -> Any:
        made = x + 1
        return made, made, made.view(1, 3)

    replay, _ = replayed(function, torch.ones(3))
    x = torch.zeros(3)
    for call in range(4):
        one, same, view = replay(x.fill_(call))
        assert one is same
        assert view.data_ptr() == one.data_ptr()
        assert view.tolist() == [[call + 1] * 3]
    assert replay.general == 2


def test_inputs_of_another_kind_at_recorded_addresses_are_another_kind() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    made: list[Replay] = []

    def make(kind: Sequence[Any]) -> Replay:
        made.append(Replay(function, kind, frozenset, record=Recorder()))
        return made[-1]

    checked = Checked(1, make, function, alignment=False)
    x = torch.arange(6.0).view(2, 3)
    for _ in range(3):
        for other in (x, x.view(3, 2), x[:, :2], x.view(torch.int32), x[:1], x.view(-1)):
            assert torch.equal(checked.entry(other), other * 2)
    assert len(made) == 6
    with torch.autocast("cpu"):
        assert torch.equal(checked.entry(x), x * 2)
    assert len(made) == 7


def test_named_tuples_are_handed_out_as_such() -> None:
    replay, _ = replayed(lambda x: torch.max(x, 0), torch.ones(3))
    x = torch.tensor([1.0, 5.0, 2.0])
    for _ in range(4):
        assert type(replay(x)) is torch.return_types.max
        assert replay(x).indices.item() == 1


def test_expanded_inputs_are_copied_without_their_repetitions() -> None:
    replay, _ = replayed(lambda x, y: x + y, torch.ones(1, 3).expand(2, 3), torch.ones(2, 3))
    kept = [torch.full((1, 3), float(i)) for i in range(5)]
    y = torch.zeros(2, 3)
    for i, x in enumerate(kept):
        assert replay(x.expand(2, 3), y).tolist() == [[i] * 3] * 2
    assert replay.copied == (0,)


def test_inputs_that_come_to_share_memory_are_not_copied_apart() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + y

    replay, _ = replayed(function, torch.ones(3), torch.ones(3), written=[0])
    assert replay(torch.ones(3), torch.ones(3)).tolist() == [3] * 3
    both = torch.arange(5.0)
    assert replay(both[:3], both[2:]).tolist() == [4, 5, 8]  # the second input sees the write to the first
    assert both.tolist() == [0, 2, 4, 3, 4]
