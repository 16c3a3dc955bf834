"""Once a run is interrupted, no worker thread starts anything more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pass_agent.runtime.gate import Gate, Interrupted
from pass_agent.runtime.local import LocalRuntime


def test_closing_waits_for_what_is_being_started() -> None:
    gate, inside, go_on = Gate(), threading.Event(), threading.Event()
    order: list[str] = []

    def start() -> None:
        with gate.passing():
            inside.set()
            go_on.wait(10)
            order.append("started")

    def close() -> None:
        gate.close()
        order.append("closed")

    starter, closer = threading.Thread(target=start), threading.Thread(target=close)
    starter.start()
    assert inside.wait(10)
    closer.start()
    closer.join(0.1)
    assert closer.is_alive()
    go_on.set()
    closer.join(10)
    starter.join(10)
    assert order == ["started", "closed"]
    with pytest.raises(Interrupted), gate.passing():
        pass


def test_a_start_that_fails_lets_the_gate_close() -> None:
    gate = Gate()
    with pytest.raises(OSError, match="no such"), gate.passing():
        raise OSError("no such program")
    gate.close()  # at once


def test_a_runtime_that_was_cleaned_of_its_own_boxes_starts_nothing(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path, "off")
    box = runtime.open()
    assert box.run(["true"], {}, 10).code == 0
    assert runtime.clean(own=True) == 1 and list(tmp_path.glob("box-*")) == []
    with pytest.raises(Interrupted):
        runtime.open()
    with pytest.raises(Interrupted):
        box.run(["true"], {}, 10)
    assert runtime.leftovers() == []
