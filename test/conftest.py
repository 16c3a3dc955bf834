"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tiny_sample import make_sample

# Triton reads this when it is imported, which any test may cause; with a GPU its kernels run for real.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# No test finds what another run has compiled.
os.environ.setdefault("PASSNET_PASS_CACHE", "off")

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


__all__ = ["make_sample", "repository", "shared_dir"]
