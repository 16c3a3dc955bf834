"""Turns exceptions in a child into one readable line and a short traceback."""

from __future__ import annotations

import traceback

from pass_bench.errors import BadInput
from pass_bench.worker.messages import Fault, FaultKind

DETAIL_CHARS = 6000


def one_line(text: str, limit: int = 500) -> str:
    """Return the first line that is not empty, printable, at most `limit` characters."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "")
    line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def printable(text: str) -> str:
    """Replace control characters (terminal escapes) other than newline and tab."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def describe(error: BaseException) -> str:
    """Return "RuntimeError: shape ..." in one line; one that ends with a colon takes the next along."""
    name = type(error).__name__
    lines = [line for line in str(error).splitlines() if line.strip()]
    words = one_line(str(error))
    if words.endswith(":") and len(lines) > 1:
        words = one_line(f"{words} {lines[1].strip()}")
    return f"{name}: {words}" if words else name


def fault_of(error: BaseException, kind: FaultKind) -> Fault:
    """Describe an exception; a BadInput keeps its file and line."""
    detail = printable("".join(traceback.format_exception(error)))[-DETAIL_CHARS:]
    if isinstance(error, BadInput):
        return Fault(fault=kind, reason=one_line(str(error)), detail=detail)
    return Fault(fault=kind, reason=describe(error), detail=detail)
