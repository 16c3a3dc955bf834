"""Length-prefixed JSON messages over a Unix socket, with at most one file descriptor beside each.

Both ends of the evaluation speak it. The reader treats the other end as hostile: every length is capped,
every wait has a deadline, and descriptors nobody asked for are closed.
"""

from __future__ import annotations

import array
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

MAX_MESSAGE_BYTES = 8 << 20
MAX_DESCRIPTORS = 4
HEADER = struct.Struct("!I")
M = TypeVar("M", bound=BaseModel)
Deadline = float | Callable[[], float] | None


class ProtocolError(Exception):
    """The other end sent something that is not a message."""


class PeerClosed(Exception):
    """The other end closed its socket, or died."""


class PeerTimeout(Exception):
    """The other end did not answer before the deadline."""


class Channel:
    """One end of a stream socket that carries pydantic messages."""

    def __init__(self, connection: socket.socket):
        self._socket = connection
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, message: BaseModel, descriptors: tuple[int, ...] = (), deadline: Deadline = None) -> None:
        """Send one message; raises PeerClosed, PeerTimeout. `deadline` is on time.monotonic's clock.

        A deadline that is a function may move while it is waited for.
        """
        body = message.model_dump_json().encode()
        if len(body) > MAX_MESSAGE_BYTES:
            raise ProtocolError(f"a message of {len(body)} bytes is over the limit of {MAX_MESSAGE_BYTES}")
        data = memoryview(HEADER.pack(len(body)) + body)
        ancillary = []
        if descriptors:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        while data:
            self._wait(select.POLLOUT, deadline)
            try:
                sent = self._socket.sendmsg([data], ancillary)
            except BlockingIOError:
                continue
            except OSError as error:
                raise PeerClosed(str(error)) from error
            data, ancillary = data[sent:], []

    def receive(
        self, kind: type[M], deadline: Deadline = None, max_bytes: int = MAX_MESSAGE_BYTES
    ) -> tuple[M, tuple[int, ...]]:
        """Read one message and the descriptors beside it, which the caller owns and must close.

        Raises PeerClosed, PeerTimeout, ProtocolError.
        """
        header, descriptors = self._read_header(deadline)
        try:
            (length,) = HEADER.unpack(header)
            if length > max_bytes:
                raise ProtocolError(f"announced a message of {length} bytes, the limit is {max_bytes}")
            body = self._read(length, deadline)
            try:
                return kind.model_validate_json(body), descriptors
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(str(part) for part in first["loc"])
                raise ProtocolError(f"malformed message: {where}: {first['msg']}") from None
        except BaseException:
            for descriptor in descriptors:
                os.close(descriptor)
            raise

    def _read_header(self, deadline: Deadline) -> tuple[bytes, tuple[int, ...]]:
        """Read the length and the descriptors, which arrive with its first byte."""
        room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
        while True:
            self._wait(select.POLLIN, deadline)
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(HEADER.size, room, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                continue
            except OSError as error:
                raise PeerClosed(str(error)) from error
            break
        received: list[int] = []
        for level, type_, content in ancillary:
            if level == socket.SOL_SOCKET and type_ == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                received.extend(numbers)
        try:
            if not data:
                raise PeerClosed("closed")
            if flags & socket.MSG_CTRUNC:
                raise ProtocolError("too many descriptors beside one message")
            if len(data) < HEADER.size:
                data += self._read(HEADER.size - len(data), deadline)
        except BaseException:
            for descriptor in received:
                os.close(descriptor)
            raise
        return data, tuple(received)

    def _read(self, length: int, deadline: Deadline) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            self._wait(select.POLLIN, deadline)
            try:
                data = self._socket.recv(min(length - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            except OSError as error:
                raise PeerClosed(str(error)) from error
            if not data:
                raise PeerClosed("closed in the middle of a message")
            parts += data
        return bytes(parts)

    def _wait(self, event: int, deadline: Deadline) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        while True:
            left = None if deadline is None else _seconds(deadline) - time.monotonic()
            if poll.poll(None if left is None else max(0.0, left) * 1000):
                return
            # One that moves on while the peer stands still may be later now than it was.
            if not callable(deadline) or deadline() <= time.monotonic():
                raise PeerTimeout("no answer before the deadline")


def _seconds(deadline: float | Callable[[], float]) -> float:
    return deadline() if callable(deadline) else deadline


def channel_pair() -> tuple[Channel, socket.socket]:
    """Return our end as a channel and the other end as a socket to hand over."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs
