"""Whole runs: what is stored, what is skipped, what a kill leaves behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_sample import MODEL, PASS

from pass_bench.cli import passbench, run
from pass_bench.results.store import read_store
from pass_bench.results.verdict import Verdict

QUICK = ["--devices", "cpu", "--trials", "3", "--warmup", "1"]
OTHER = MODEL.replace("in_0 + in_1", "in_0 * in_1")


def batch(*arguments: object) -> int:
    return run(passbench, ["batch", *map(str, arguments), *QUICK])


def verdicts(out: Path) -> dict[tuple[str, str, str], Verdict]:
    stored = [entry.stored.result for entry in read_store(out / "results.jsonl").entries]
    return {(Path(r.sample).name, r.graph, r.compiler): r.verdict for r in stored}


@pytest.mark.timeout(300)
def test_a_submission_is_scored_beside_a_baseline_and_a_rerun_measures_nothing(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sample(graphs={"one": MODEL, "two": OTHER}, name="set/a")
    make_sample(name="set/b")
    submission = tmp_path / "submission"
    for name, passes in {"a": {"AddRelu": PASS}, "b": {"Broken": "def pattern(x): return x\n"}}.items():
        made = make_sample(passes=passes, name=f"spare-{name}")
        (submission / name).parent.mkdir(exist_ok=True)
        (made / "pass_dir").rename(submission / name)
    out = tmp_path / "out"
    command = (tmp_path / "set", "--passes", submission, "--baseline", "nope", "--out", out)
    assert batch(*command) == 0
    assert "6 measured, 0 were there, 0 left" in capsys.readouterr().out
    assert verdicts(out) == {
        ("a", "graphs/one", "pass_mgr_direct"): Verdict.CORRECT,
        ("a", "graphs/two", "pass_mgr_direct"): Verdict.PASS_MISS,
        ("b", "graphs/tiny", "pass_mgr_direct"): Verdict.COMPILE_FAIL,
        ("a", "graphs/one", "nope"): Verdict.CORRECT,
        ("a", "graphs/two", "nope"): Verdict.CORRECT,
        ("b", "graphs/tiny", "nope"): Verdict.CORRECT,
    }
    before = (out / "results.jsonl").read_bytes()
    assert batch(*command) == 0
    assert "0 measured, 6 were there, 0 left" in capsys.readouterr().out
    assert (out / "results.jsonl").read_bytes() == before
    assert batch(*command, "--retry", "failed") == 0
    assert "2 measured, 4 were there" in capsys.readouterr().out


@pytest.mark.timeout(300)
def test_const_passes_of_a_sample_are_applied_and_part_of_the_key(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = make_sample(name="a")
    (sample / "pass_dir" / "AddRelu.py").rename(sample / "AddRelu.py")
    (sample / "pass_dir" / "sorted_output_pass_rule_names.json").write_text("[]")
    const = sample / "const_pass_dir"
    const.mkdir()
    (sample / "AddRelu.py").rename(const / "AddRelu.py")
    out = tmp_path / "out"
    assert batch(sample, "--out", out) == 0
    assert verdicts(out) == {("a", "graphs/tiny", "pass_mgr_direct"): Verdict.CORRECT}
    (const / "AddRelu.py").write_text(PASS.replace("s > 0 ||", "s > 1 ||"))
    assert batch(sample, "--out", out) == 0
    assert "1 measured, 0 were there" in capsys.readouterr().out.splitlines()[-1]
    assert verdicts(out) == {("a", "graphs/tiny", "pass_mgr_direct"): Verdict.ACCURACY}


@pytest.mark.timeout(120)
def test_samples_without_passes_count_as_misses(
    make_sample: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sample(name="a")
    (tmp_path / "nothing").mkdir()
    assert batch(tmp_path / "a", "--passes", tmp_path / "nothing", "--out", tmp_path / "out") == 0
    assert "1 of 1 samples have no passes" in capsys.readouterr().err
    assert set(verdicts(tmp_path / "out").values()) == {Verdict.PASS_MISS}


def start(tmp_path: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pass_bench", "batch", str(tmp_path / "set"), "--out", str(out), *QUICK]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def many(make_sample: Callable[..., Path], samples: int) -> None:
    for number in range(samples):
        make_sample(graphs={"one": MODEL, "two": OTHER}, name=f"set/{number:02}")


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.serial
@pytest.mark.timeout(300)
def test_an_interrupt_finishes_the_running_graph_and_a_rerun_goes_on(
    make_sample: Callable[..., Path], tmp_path: Path
) -> None:
    many(make_sample, 4)
    out = tmp_path / "out"
    process = start(tmp_path, out)
    store = out / "results.jsonl"
    wait_for(lambda: store.exists() and store.stat().st_size > 3000)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 3, stderr
    assert b"run the same command again" in stderr
    done = len(verdicts(out))
    assert 1 <= done < 8
    again = start(tmp_path, out)
    stdout, stderr = again.communicate(timeout=240)
    assert again.returncode == 0, stderr
    assert f"{8 - done} measured, {done} were there".encode() in stdout
    assert len(verdicts(out)) == 8


def lines_of(store: Path) -> int:
    return store.read_bytes().count(b"\n") if store.exists() else 0


@pytest.mark.serial
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_kill_at_random_moments_then_a_rerun_loses_and_doubles_nothing(
    make_sample: Callable[..., Path], tmp_path: Path, kills: int
) -> None:
    """Most kills come a random time after a new result, so within a graph; some while the workers start."""
    samples = 3 if kills < 5 else 25
    many(make_sample, samples)
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "out"
    process = start(tmp_path, undisturbed)
    _, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    moments = random.Random(kills)
    store = out / "results.jsonl"
    struck = 0
    for _ in range(kills):
        before = lines_of(store)
        process = start(tmp_path, out)
        if moments.random() < 0.8:
            wait_for(lambda p=process, b=before: p.poll() is not None or lines_of(store) > b, 240)
            delay = moments.uniform(0.0, 2.0)
        else:
            delay = moments.uniform(0.2, 6.0)
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            struck += 1
        process.communicate()
    assert struck >= kills // 2, "most runs ended before they could be killed"
    process = start(tmp_path, out)
    _, stderr = process.communicate(timeout=900)
    assert process.returncode == 0, stderr
    written = [line for line in store.read_bytes().splitlines() if b'"result"' in line[:40]]
    assert len(written) <= 2 * samples, "a graph was measured twice"

    def by_key(folder: Path) -> dict[str, tuple[Verdict, str]]:
        entries = read_store(folder / "results.jsonl").entries
        return {entry.key: (entry.stored.result.verdict, entry.stored.result.reason) for entry in entries}

    assert len(by_key(out)) == 2 * samples
    assert by_key(out) == by_key(undisturbed)  # with the reasons: those of a miss are the same, too
    assert {verdict for verdict, _ in by_key(out).values()} == {Verdict.CORRECT, Verdict.PASS_MISS}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system of a size, or makes it larger; skips aloud if not root."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = False

    def mount(size: str) -> Path:
        nonlocal mounted
        options = f"remount,size={size}" if mounted else f"size={size}"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True)
        if done.returncode != 0:
            pytest.skip(f"cannot mount a small file system: {done.stderr.decode().strip()}")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.serial
@pytest.mark.timeout(400)
def test_a_full_disk_ends_the_run_with_3_and_a_readable_store(
    make_sample: Callable[..., Path], tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    many(make_sample, 3)
    out = small_disk("8k")
    process = start(tmp_path, out)
    _, stderr = process.communicate(timeout=200)
    assert process.returncode == 3, stderr
    assert b"No space left on device" in stderr and b"Traceback" not in stderr
    kept = verdicts(out)
    assert 1 <= len(kept) < 6
    small_disk("1m")
    again = start(tmp_path, out)
    stdout, stderr = again.communicate(timeout=200)
    assert again.returncode == 0, stderr
    assert f"{6 - len(kept)} measured, {len(kept)} were there".encode() in stdout
    assert len(verdicts(out)) == 6 and kept.items() <= verdicts(out).items()
