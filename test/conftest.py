"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with the real graphs and the score vectors; skips aloud where it is not there."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: real graphs and vectors are not available here")
    return SHARED


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY
