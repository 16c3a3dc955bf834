"""Notices kernels that Triton interprets, so that their time is not taken for a speed."""

from __future__ import annotations

import functools
from typing import Any


class LaunchCounter:
    """Counts interpreted launches in this process from its creation on."""

    def __init__(self) -> None:
        self.count = 0
        try:
            from triton.runtime import interpreter
        except ImportError:
            return
        launch = interpreter.GridExecutor.__call__

        @functools.wraps(launch)
        def counted(executor: Any, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return launch(executor, *args, **kwargs)

        interpreter.GridExecutor.__call__ = counted


def unsupported_reason(error: BaseException) -> str | None:
    """Return why an exception means that a GPU is needed, None if it does not."""
    from pass_bench.kernels.interpreter import unsupported_reason as reason

    return reason(error)
