"""The device lock: whoever asks, from wherever, one at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pass_bench.errors import HarnessFailure
from pass_bench.worker import lock
from pass_bench.worker.lock import DeviceLock

NOBODY = 65534


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder that all users share, as /tmp is; tmp_path is closed to others."""
    made = Path(tempfile.mkdtemp(dir="/tmp"))
    made.chmod(0o1777)
    monkeypatch.setattr(lock, "FOLDER", made)
    yield made
    shutil.rmtree(made)


def is_held(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def test_it_is_held_for_the_block(folder: Path) -> None:
    with DeviceLock("cuda", "3,1"):
        assert is_held(folder / "passnet-cuda-3.lock")
    assert not is_held(folder / "passnet-cuda-3.lock")


def test_the_umask_does_not_close_it_to_others(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with DeviceLock("cpu"):
            pass
    finally:
        os.umask(before)
    assert (folder / "passnet-cpu.lock").stat().st_mode & 0o777 == 0o666


def test_the_file_of_another_user_will_do(folder: Path) -> None:
    path = folder / "passnet-cpu.lock"
    path.touch()
    path.chmod(0o444)
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setuid(NOBODY)  # root may write everything
            with DeviceLock("cpu"):
                status = 0 if is_held(path) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_tmpdir_does_not_part_two_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = DeviceLock("cpu")._path
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert DeviceLock("cpu")._path == before == Path("/tmp/passnet-cpu.lock")


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "passnet-cpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HarnessFailure, match=r"passnet-cpu\.lock: cannot be opened as a lock"):
        DeviceLock("cpu").acquire()
    assert not (tmp_path / "elsewhere").exists()
