"""`make_sample` lives in test/tiny_sample.py; every test sees it through test/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Let workers run on one thread: tests in parallel would wait for each other's barriers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
