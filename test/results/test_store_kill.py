"""A writer killed at random moments loses at most the record it was writing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pass_bench.results.store import Store, read_store

WRITER = """
import sys
from pass_bench.results.records import GraphResult
from pass_bench.results.store import Store, StoredResult
with Store(sys.argv[1]) as store:
    number = len(store.done())
    print("ready", flush=True)
    while True:
        result = GraphResult(sample="s", graph=f"g{number}", index=0, compiler="nope", device="cpu",
                             verdict="correct", log_tail="x" * 20000)
        store.append(str(number), StoredResult(result=result))
        number += 1
"""


@pytest.mark.serial
@pytest.mark.parametrize("kills", [4, pytest.param(20, marks=pytest.mark.full)])
def test_kills_at_random_moments(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "results.jsonl"
    rng = random.Random(3)
    before = 0
    for _ in range(kills):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None and writer.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0.02, 0.2))
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        keys = [int(entry.key) for entry in read_store(path).entries]
        assert keys == list(range(len(keys))) and len(keys) >= before
        before = len(keys)
    assert before > 0
    with Store(path) as store:
        assert store.done() == {str(key) for key in range(before)}
