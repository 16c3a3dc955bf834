"""What the make targets install before they run the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(("target", "all_extras"), [("test", False), ("test-full", True)])
def test_the_full_tests_have_every_extra(
    target: str, all_extras: bool, repository: Path, tmp_path: Path
) -> None:
    command = ["make", "--dry-run", f"VENV={tmp_path / 'fresh'}", target]
    lines = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True).stdout
    assert "-e '.[dev]'" in lines
    assert ("-e '.[dev,ray,train]'" in lines) is all_extras
