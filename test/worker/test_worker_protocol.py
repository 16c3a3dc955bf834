"""Messages and memory files from a hostile peer: typed errors, no leaked descriptors, no crash."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pass_bench.worker.descriptors import SEALS, check_descriptor
from pass_bench.worker.messages import CandidateReply, Leaf, MemoryReply, Payload
from pass_bench.worker.outcome import stop_of
from pass_bench.worker.payload import leaves_of, read_leaf, write_payload
from pass_bench.worker.protocol import (
    HEADER,
    Channel,
    PeerClosed,
    PeerTimeout,
    ProtocolError,
    channel_pair,
)


def soon() -> float:
    return time.monotonic() + 0.5


def received(data: bytes) -> CandidateReply:
    ours, theirs = channel_pair()
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        message, descriptors = ours.receive(CandidateReply, soon())
        assert descriptors == ()
    ours.close()
    return message


def framed(text: str) -> bytes:
    return HEADER.pack(len(text.encode())) + text.encode()


def test_a_message_and_a_descriptor_arrive_together() -> None:
    ours, theirs = channel_pair()
    other = Channel(theirs)
    with Path(__file__).open() as file:
        other.send(CandidateReply(reply=MemoryReply(peak_bytes=7)), (file.fileno(),))
    message, (descriptor,) = ours.receive(CandidateReply, soon())
    assert message.reply == MemoryReply(peak_bytes=7)
    assert os.read(descriptor, 3) == b'"""'
    os.close(descriptor)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"", PeerClosed, "closed"),
        (b"\0\0", PeerClosed, "closed in the middle"),
        (HEADER.pack(50) + b"{}", PeerClosed, "closed in the middle"),
        (HEADER.pack(2**31), ProtocolError, "2147483648 bytes"),
        (framed("not json"), ProtocolError, "malformed"),
        (framed("[]"), ProtocolError, "malformed"),
        (framed('{"reply": {"kind": "verdict", "value": "correct"}}'), ProtocolError, "malformed"),
        (framed('{"reply": {"kind": "memory_reply", "peak_bytes": -1}}'), ProtocolError, "greater than"),
        (framed('{"reply": {"kind": "memory_reply", "peak_bytes": NaN}}'), ProtocolError, "malformed"),
        (framed('{"reply": {"kind": "time_reply", "trials": [[1e400]]}}'), ProtocolError, "malformed"),
        (framed('{"reply": {"kind": "time_reply", "trials": [[0]]}}'), ProtocolError, "malformed"),
        (
            framed('{"reply": {"kind": "fault", "fault": "correct", "reason": "x"}}'),
            ProtocolError,
            "malformed",
        ),
        (framed('{"reply": {"kind": "entered", "extra": 1}}'), ProtocolError, "malformed"),
        (framed('{"reply": {"kind": "entered", "warnings": ["%s"]}}' % ("x" * 3000)), ProtocolError, "2000"),
        (framed('{"reply":' * 5000), ProtocolError, "malformed"),
    ],
)
def test_what_is_no_message_is_a_typed_error(data: bytes, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        received(data)


def test_silence_and_a_dripping_peer_end_at_the_deadline() -> None:
    ours, theirs = channel_pair()
    theirs.sendall(HEADER.pack(100) + b"{")
    start = time.monotonic()
    with pytest.raises(PeerTimeout):
        ours.receive(CandidateReply, start + 0.2)
    assert 0.2 <= time.monotonic() - start < 5


def test_descriptors_nobody_asked_for_are_closed() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    ours, theirs = channel_pair()
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    with theirs, pytest.raises(ProtocolError):
        socket.send_fds(theirs, [framed("[]")], files)
        ours.receive(CandidateReply, soon())
    ours.close()
    for file in files:
        os.close(file)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_never_get_through(data: bytes) -> None:
    with pytest.raises((ProtocolError, PeerClosed, PeerTimeout)):
        received(data)


def test_outputs_and_changed_inputs_survive_the_trip() -> None:
    outputs = ((torch.arange(6.0).reshape(2, 3).t(), None), {"k": torch.tensor([True])}, 3, -0.5, False)
    inputs = [torch.ones(2, dtype=torch.bfloat16), torch.tensor(7)]
    payload, descriptor = write_payload(outputs, inputs, [0], 1 << 20)
    check_descriptor(descriptor, payload, 1 << 20)
    back = [read_leaf(leaf, descriptor, "cpu") for leaf in (*payload.outputs, *payload.effects)]
    wanted = [value for _, value in leaves_of(outputs)] + [inputs[0]]
    assert [leaf.where for leaf in payload.outputs] == [
        "output[0][0]",
        "output[0][1]",
        "output[1]['k']",
        "output[2]",
        "output[3]",
        "output[4]",
    ]
    for one, other in zip(back, wanted, strict=True):
        same = torch.equal(one, other) if isinstance(other, torch.Tensor) else one == other
        assert same and type(one) is type(other)
    os.close(descriptor)


def test_a_tensor_over_the_budget_comes_without_its_bytes() -> None:
    payload, descriptor = write_payload((torch.ones(1000), torch.ones(2)), [], [], 100)
    assert [leaf.omitted for leaf in payload.outputs] == [True, False]
    assert read_leaf(payload.outputs[0], descriptor, "cpu").shape == (1000,)
    assert payload.total_bytes < 100
    os.close(descriptor)


class Lazy(torch.Tensor):
    """A subclass that could compute when it is read."""


def test_lazy_and_sparse_tensors_are_not_taken_for_tensors() -> None:
    lazy = torch.ones(2).as_subclass(Lazy)
    payload, descriptor = write_payload((lazy, torch.eye(2).to_sparse(), object()), [], [], 1000)
    os.close(descriptor)
    assert [(leaf.type, leaf.value) for leaf in payload.outputs] == [
        ("other", "Lazy"),
        ("other", "torch.sparse_coo tensor"),
        ("other", "object"),
    ]
    assert type(read_leaf(payload.outputs[0], None, "cpu")).__name__ == "Lazy"


def memory_file(size: int, seals: int = SEALS) -> int:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def test_only_sealed_memory_files_of_the_announced_size_are_read(tmp_path: Path) -> None:
    payload = Payload(outputs=(), effects=(), total_bytes=64)
    check_descriptor(memory_file(64), payload, 64)
    read_end, _ = os.pipe()
    ordinary = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(ordinary, 64)
    for descriptor, words in (
        (read_end, "no memory file"),
        (ordinary, "no memory file|not sealed"),
        (memory_file(64, fcntl.F_SEAL_WRITE), "not sealed"),
        (memory_file(65), "65 bytes"),
    ):
        with pytest.raises(ProtocolError, match=words):
            check_descriptor(descriptor, payload, 64)
    large = Payload(outputs=(), effects=(), total_bytes=1 << 30)
    with pytest.raises(ProtocolError, match="at most 64"):
        check_descriptor(memory_file(1 << 30), large, 64)


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (Leaf(where="o", type="tensor", dtype="float99", shape=(1,), nbytes=4), "unknown dtype"),
        (Leaf(where="o", type="tensor", dtype="float32", shape=(3,), nbytes=4), "do not fit"),
        (Leaf(where="o", type="tensor", dtype="float32", shape=(2**47, 2**47), nbytes=4), "do not fit"),
        (Leaf(where="o", type="tensor", dtype="float32", shape=(32,), nbytes=128), "outside the file"),
        (Leaf(where="o", type="tensor", dtype="int8", shape=(8,), nbytes=8, offset=60), "outside the file"),
        (Leaf(where="o", type="int", value="nine"), "no int"),
        (Leaf(where="o", type="bool", value="1"), "no bool"),
    ],
)
def test_headers_that_lie_are_refused(leaf: Leaf, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        read_leaf(leaf, memory_file(64), "cpu")


def test_unscored_verdicts_are_not_a_candidates_to_give() -> None:
    from pass_bench.results.verdict import Verdict
    from pass_bench.worker.messages import Fault

    assert stop_of(Fault(fault="infra", reason="not my fault"), "cpu").verdict is Verdict.RUNTIME_FAIL
    assert stop_of(Fault(fault="eager_fail", reason="x"), "cpu").verdict is Verdict.RUNTIME_FAIL
    assert stop_of(Fault(fault="unsupported_on_cpu", reason="x"), "cuda").verdict is Verdict.RUNTIME_FAIL
    assert stop_of(Fault(fault="unsupported_on_cpu", reason="x"), "cpu").verdict is Verdict.UNSUPPORTED_ON_CPU
    coloured = stop_of(Fault(fault="runtime_fail", reason="\x1b[31mred\nsecond line"), "cpu")
    assert coloured.reason == "?[31mred"


def test_mutated_messages_never_crash_the_reader() -> None:
    payload, descriptor = write_payload((torch.ones(3), 1), [], [], 1000)
    os.close(descriptor)
    text = CandidateReply(reply=MemoryReply(peak_bytes=1)).model_dump_json() + payload.model_dump_json()
    source = random.Random(11)
    for _ in range(300):
        data = bytearray(text.encode()[: source.randrange(1, len(text))])
        for _ in range(source.randrange(1, 6)):
            data[source.randrange(len(data))] = source.randrange(256)
        with pytest.raises((ProtocolError, PeerClosed)):
            received(HEADER.pack(len(data)) + bytes(data))
