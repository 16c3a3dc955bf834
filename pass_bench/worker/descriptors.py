"""What a memory file must look like before anyone reads it; no torch."""

from __future__ import annotations

import fcntl
import os

from pass_bench.worker.messages import Payload
from pass_bench.worker.protocol import ProtocolError

SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
SLACK_BYTES = 1 << 20  # alignment between tensors


def check_descriptor(descriptor: int, payload: Payload, limit_bytes: int) -> None:
    """Accept only a sealed memory file of the announced size within the limit; raises ProtocolError.

    Seals mean that nobody can change or shorten the file while it is read.
    """
    try:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("the descriptor beside the outputs is no memory file") from None
    if seals & SEALS != SEALS:
        raise ProtocolError("the memory file beside the outputs is not sealed")
    size = os.fstat(descriptor).st_size
    if size != payload.total_bytes or size > limit_bytes + SLACK_BYTES:
        raise ProtocolError(f"the outputs came with {size} bytes, at most {limit_bytes} were expected")
