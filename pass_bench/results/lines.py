"""Checksummed JSON lines: one record a line, each readable by any JSON reader."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PREFIX = b'{"crc":"'
_BODY_AT = len(_PREFIX) + 8 + 2  # the eight hex digits, a quote and a comma


@dataclass(frozen=True, slots=True)
class Line:
    """One sound line: what kind of record, its key, and the record as JSON text."""

    kind: str
    key: str
    data: bytes


def encode(kind: str, key: str, data: str) -> bytes:
    """`{"crc":"1a2b3c4d","kind":"result","key":"...","data":{...}}` and a line end.

    The checksum is the CRC-32 of the line as it would be without it. `data` is JSON text without line ends.
    """
    head = json.dumps({"kind": kind, "key": key}, separators=(",", ":"))[:-1]
    body = f'{head},"data":{data}}}'.encode()
    return _PREFIX + f'{zlib.crc32(body):08x}",'.encode() + body[1:] + b"\n"


def decode(line: bytes) -> Line | None:
    """The record of a line, or None where the checksum does not fit or the line is not one of ours."""
    line = line.rstrip(b"\n")
    if not line.startswith(_PREFIX) or len(line) <= _BODY_AT or not line.endswith(b"}"):
        return None
    body = b"{" + line[_BODY_AT:]
    digits = line[len(_PREFIX) : len(_PREFIX) + 8]
    if f"{zlib.crc32(body):08x}".encode() != digits:
        return None
    head, separator, data = body.partition(b',"data":')
    if not separator:
        return None
    try:
        names = json.loads(head + b"}")
        return Line(str(names["kind"]), str(names["key"]), data[:-1])
    except (ValueError, KeyError, TypeError):
        return None


def iterate(path: Path) -> Iterator[tuple[int, Line | None, bool]]:
    """Every line of a file: its number, its record or None, and whether it is a last line without an end."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield number, decode(line), not line.endswith(b"\n")


def sound_length(path: Path) -> int:
    """The length in bytes up to and including the last complete line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        end = size
        while end > 0:
            start = max(0, end - 65536)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0
