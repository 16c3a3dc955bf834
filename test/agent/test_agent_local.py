"""Boxes of runs that are gone are removed, whatever moment they were killed at; those of others are not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from pass_agent.runtime.local import LocalRuntime, process_start


def test_a_box_is_removed_once_its_runner_is_gone(tmp_path: Path) -> None:
    runtime = LocalRuntime(tmp_path, "off")
    mine = runtime.open()
    with subprocess.Popen(["sleep", "60"]) as runner:
        theirs = tmp_path / f"box-0123456789abcdef-{runner.pid}-{process_start(runner.pid)}"
        theirs.mkdir()  # killed before it made anything more
        assert runtime.clean() == 0 and theirs.is_dir()
        runner.kill()
        runner.wait(10)
    assert runtime.clean() == 1
    assert list(tmp_path.iterdir()) == [mine.root]
    mine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_pid_that_was_given_again_owns_nothing(tmp_path: Path) -> None:
    started = int(process_start(os.getpid()))
    (tmp_path / f"box-0123456789abcdef-{os.getpid()}-{started - 1}").mkdir()
    (tmp_path / "box-0123456789abcdef-1-").mkdir()  # of a process whose start could not be read
    assert LocalRuntime(tmp_path, "off").clean() == 2
