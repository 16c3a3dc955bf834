"""What children print is kept up to a bound, whatever the size of their writes, and never blocks them."""

from __future__ import annotations

import os
import time

import pytest

from pass_bench.worker.captured import CAP_BYTES, PIECE_BYTES, Output


@pytest.mark.parametrize("write_bytes", [7, 1000, 65536, 1 << 20])
def test_the_last_mebibyte_is_kept(write_bytes: int) -> None:
    written = b"".join(b"%07d\n" % line for line in range(300_000))  # 2.4 MB
    read_end, write_end = os.pipe()
    output = Output(read_end)
    for start in range(0, len(written), write_bytes):
        os.write(write_end, written[start : start + write_bytes])
    os.close(write_end)
    assert output.text(10) == written[-CAP_BYTES:].decode()
    assert output.total == len(written)
    held = sum(map(len, output._pieces))
    assert CAP_BYTES <= held <= CAP_BYTES + 2 * PIECE_BYTES and len(output._pieces) <= 18


def test_little_output_is_kept_whole() -> None:
    read_end, write_end = os.pipe()
    output = Output(read_end)
    os.write(write_end, b"one line\n\xff")
    os.close(write_end)
    assert output.text(10) == "one line\n\ufffd"


def test_of_the_output_of_a_warm_worker_only_what_is_new_counts() -> None:
    read, write = os.pipe()
    output = Output(read)
    os.write(write, b"of the first graph\n")
    while output.total < 19:
        time.sleep(0.001)
    before = output.total
    assert output.text(0.0, before) == ""
    os.write(write, b"of the second\n")
    os.close(write)
    assert output.text(5.0, before) == "of the second\n"
    assert output.text() == "of the first graph\nof the second\n"
