"""Whatever is killed whenever: going on gives the same records and the same published bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pass_bench.dataset.children import fork, killed_from_outside
from pass_bench.dataset.store import ModelRecord, read_record
from pass_bench.dataset.verify import read_verified, verify

SCRIPT = Path(__file__).with_name("toy_pipeline.py")
STAGES = ("begin", "decompose", "vary", "verify", "publish")


def start(work: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(work)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> dict[str, float]:
    """Wait for the end; seconds of every stage."""
    assert process.stdout is not None
    began = {line.strip(): time.monotonic() for line in process.stdout}
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    times = [*(began[stage] for stage in STAGES), time.monotonic()]
    return {stage: times[i + 1] - times[i] for i, stage in enumerate(STAGES)}


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def alive_in_session(session: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(path.name))
    return found


def published(work: Path) -> dict[str, str]:
    files = sorted(path for path in (work / "out").rglob("*") if path.is_file())
    return {str(p.relative_to(work)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def records(work: Path) -> list[ModelRecord]:
    paths = sorted((work / "models").rglob("*.json.zst"))
    return [replace(read_record(path), seconds=0.0) for path in paths]


@pytest.mark.full
@pytest.mark.serial
def test_a_run_killed_at_any_moment_goes_on_to_the_same_result(tmp_path: Path) -> None:
    seconds = finish(start(tmp_path / "whole"))
    generator = random.Random(0)
    moments = [("begin", 0.0), ("verify", 0.5)]
    moments += [(stage, generator.random()) for stage in ("begin", "decompose", "vary", "verify") * 2]
    killed: list[str] = []
    for stage, share in moments:
        process = start(tmp_path / "killed")
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == stage:
                break
        time.sleep(share * seconds[stage])
        if process.poll() is None:
            process.kill()
            killed.append(stage)
        process.communicate()
        end = time.monotonic() + 10
        while alive_in_session(process.pid) and time.monotonic() < end:
            time.sleep(0.02)
        assert not alive_in_session(process.pid)
    assert len(killed) >= 6, killed
    finish(start(tmp_path / "killed"))
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    assert len(records(tmp_path / "whole")) == 8 and all(
        r.failure is None for r in records(tmp_path / "whole")
    )
    assert published(tmp_path / "killed") == published(tmp_path / "whole")


@pytest.mark.full
@pytest.mark.serial
def test_children_killed_from_outside_change_nothing(tmp_path: Path) -> None:
    finish(start(tmp_path / "whole"))
    process = start(tmp_path / "killed")
    assert process.stdout is not None
    killed = 0
    for line in process.stdout:  # one child per stage: an entry that loses two is given up
        end = time.monotonic() + 5
        while line.strip() in ("begin", "decompose", "verify") and time.monotonic() < end:
            for pid in children(process.pid)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                    end = 0
            time.sleep(0.01)
    process.wait()
    assert process.returncode == 0 and killed == 3
    assert records(tmp_path / "killed") == records(tmp_path / "whole")
    assert published(tmp_path / "killed") == published(tmp_path / "whole")


def test_a_cut_off_line_costs_no_graph_its_place(tmp_path: Path) -> None:
    from test_dataset_stages import planned

    path = tmp_path / "verified.jsonl"
    path.write_text('{"uid": "a", "reason": null}\n{"uid": "b", "rea')
    code = "import torch\n\nclass GraphModule(torch.nn.Module):\n    def forward(self):\n        return ()\n"
    found = verify([planned("a", ("x",), code=code), planned("b", ("x",), code=code)], path)
    assert found == {"a": None, "b": "no tensor output"} == read_verified(path)


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        inner = fork()
        if inner == 0:
            time.sleep(60)
        (tmp_path / "pid").write_text(str(inner))
        os._exit(0)
    os.waitpid(pid, 0)
    inner = int((tmp_path / "pid").read_text())
    end = time.monotonic() + 10
    while Path(f"/proc/{inner}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not Path(f"/proc/{inner}").exists() or "Z" in Path(f"/proc/{inner}/stat").read_text()


def test_only_signals_that_no_limit_sends_come_from_outside() -> None:
    assert killed_from_outside(signal.SIGKILL) and killed_from_outside(signal.SIGTERM)
    assert not killed_from_outside(signal.SIGXCPU) and not killed_from_outside(0)
    assert not killed_from_outside(signal.SIGALRM) and not killed_from_outside(1 << 8)
