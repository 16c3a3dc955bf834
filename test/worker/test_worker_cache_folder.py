"""What a run's passes compiled does not outlive the run, and is nobody else's to remove while it lasts."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pass_bench.worker import cache_folder
from pass_bench.worker.cache_folder import CacheFolder

HOLDER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from pass_bench.worker.cache_folder import CacheFolder
folder = CacheFolder()
(folder.path / "kernel.so").write_bytes(b"x")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_run_leaves_a_folder_that_the_next_one_removes(temporary: Path) -> None:
    argv = [sys.executable, "-c", HOLDER, str(temporary)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        held = Path(holder.stdout.readline().strip())
        mine = CacheFolder()
        assert (held / "kernel.so").exists() and mine.path.exists() and mine.path != held
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(10)
        assert (held / "kernel.so").exists()
        other = CacheFolder()
    assert sorted(temporary.iterdir()) == sorted([mine.path, other.path])
    mine.close()
    other.close()
    other.close()
    assert list(temporary.iterdir()) == []


def test_only_our_own_kind_of_folder_is_removed(temporary: Path) -> None:
    (temporary / "passnet-caches-of-a-file").write_text("x")
    (temporary / "passnet-results").mkdir()
    (temporary / "passnet-caches-link").symlink_to(temporary / "passnet-results")
    (temporary / "passnet-caches-dead").mkdir()
    CacheFolder().close()
    left = {path.name for path in temporary.iterdir()}
    assert left == {"passnet-caches-of-a-file", "passnet-results", "passnet-caches-link"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_the_folder_of_another_user_is_left_alone(temporary: Path) -> None:
    theirs = temporary / "passnet-caches-theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    CacheFolder().close()
    assert theirs.is_dir()


def test_a_folder_taken_away_before_it_was_locked_is_made_anew(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, taken = cache_folder._lock, []

    def late(path: Path) -> int | None:
        if not taken:
            taken.append(path)
            path.rmdir()
        return lock(path)

    monkeypatch.setattr(cache_folder, "_lock", late)
    folder = CacheFolder()
    assert folder.path.is_dir() and folder.path != taken[0]
    folder.close()


def test_without_locks_a_folder_serves_and_stays(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError("no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = CacheFolder()
    CacheFolder().close()
    assert folder.path.is_dir()
    folder.close()
    assert not folder.path.exists()
