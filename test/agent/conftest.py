"""Fixtures of the agent's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_bench import Bench


@pytest.fixture(scope="session", autouse=True)
def own_device_locks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Locks of this test process alone: its evaluations measure nothing and need not wait for others."""
    before = os.environ.get("PASSAGENT_LOCK_DIR")
    os.environ["PASSAGENT_LOCK_DIR"] = str(tmp_path_factory.mktemp("locks"))
    yield
    if before is None:
        del os.environ["PASSAGENT_LOCK_DIR"]
    else:
        os.environ["PASSAGENT_LOCK_DIR"] = before


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
