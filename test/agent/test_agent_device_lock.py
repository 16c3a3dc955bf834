"""A device is held by one evaluation alone, whoever made its lock."""

from __future__ import annotations

import os
import stat

import pytest

from pass_agent.evaluation.device_lock import hold_device, lock_folder


def test_a_held_device_is_left_alone_and_free_afterwards() -> None:
    with hold_device(["cuda/0"]) as first:
        assert first == "cuda/0"
        with hold_device(["cuda/0", "cuda/1"]) as second:
            assert second == "cuda/1"
        with pytest.raises(TimeoutError), hold_device(["cuda/0"], stop=lambda: True):
            pass
    with hold_device(["cuda/0"], stop=lambda: True) as again:
        assert again == "cuda/0"


def test_a_lock_that_another_user_made_is_only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_device(["cpu"]):
        pass
    assert (lock_folder() / "device-cpu.lock").stat().st_mode & stat.S_IROTH
    flags: list[int] = []
    plain = os.open

    def opened(path: object, how: int, *mode: int) -> int:
        flags.append(how)
        return plain(path, how, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    with hold_device(["cpu"]):
        pass
    assert flags == [os.O_RDONLY]
