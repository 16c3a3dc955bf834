"""The named errors of pass_bench; the command line turns each into one line and an exit code."""

from __future__ import annotations

from pathlib import Path


class PassBenchError(Exception):
    """Base of every error that is reported as one line without a traceback."""

    exit_code = 3


class BadInput(PassBenchError):
    """A file, flag or pass is not what was expected: says what, where, and what was expected.

    Exit code 2. `path` and `line` (1-based) locate the problem where there is a file.
    """

    exit_code = 2

    def __init__(
        self, what: str, *, path: Path | str | None = None, line: int | None = None, expected: str = ""
    ):
        self.what = what
        self.path = Path(path) if path is not None else None
        self.line = line
        self.expected = expected
        where = "" if path is None else (f"{path}:{line}: " if line is not None else f"{path}: ")
        super().__init__(where + what + (f" (expected {expected})" if expected else ""))


class HarnessFailure(PassBenchError):
    """Our own failure: no device, no disk space, a lost worker. Exit code 3."""

    exit_code = 3
