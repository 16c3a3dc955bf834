"""Reading Python text that is data: bytes to an AST, with one error for whatever is wrong."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

from pass_bench.errors import BadInput


def read_text(path: Path) -> str:
    """The UTF-8 text of a file; BadInput if it is missing, not a file, or not text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadInput("no such file", path=path) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 text: {error.reason}", path=path, expected="a text file") from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror or error}", path=path) from None


def parse_python(text: str, path: Path | None) -> ast.Module:
    """Parse Python text without running it; BadInput with the line where it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"syntax error: {error.msg}", path=path, line=error.lineno) from None
    except ValueError as error:  # null bytes, integers too long to convert
        raise BadInput(f"not Python: {error}", path=path) from None
    except (RecursionError, MemoryError):
        raise BadInput("nested too deeply to parse", path=path) from None
