"""The box: what is out of reach inside it, what still works, and how its end is reported."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from boxed import attempts, become_nobody, run_boxed

from pass_bench.errors import HarnessFailure
from pass_bench.guard import namespaces, sandbox, seccomp, syscalls
from pass_bench.guard.filesystem import runtime_dirs
from pass_bench.guard.limits import Limits
from pass_bench.guard.processes import descendants, resident_bytes

PERMISSION, READ_ONLY, NO_FAMILY, NO_CALL = "PermissionError 1", "OSError 30", "OSError 97", "OSError 38"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give up root")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:3]:
        if parent != Path("/tmp") and parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    passes, cache, secret = tmp_path / "pass_dir", tmp_path / "cache", tmp_path / "results"
    for folder in (passes, cache, secret):
        folder.mkdir()
    (passes / "p.py").write_text("x = 1\n")
    (secret / "score.json").write_text("{}")
    return passes, cache, secret


def probe(passes: Path, cache: Path, secret: Path) -> dict[str, str]:
    def system_call(name: str, *args: int) -> None:
        syscalls.call(name, *args)

    return attempts(
        write_pass=lambda: (passes / "p.py").write_text("x = 2\n"),
        read_pass=lambda: (passes / "p.py").read_text(),
        write_cache=lambda: (cache / "k").write_text("k"),
        see_results=lambda: (secret / "score.json").read_text(),
        see_parent_of_pass=lambda: list(Path("/var").iterdir()),
        write_usr=lambda: Path("/usr/x").write_text(""),
        core_pattern=lambda: Path("/proc/sys/kernel/core_pattern").write_text("|/bin/sh"),
        kill_init=lambda: os.kill(1, signal.SIGKILL),
        init_memory=lambda: Path("/proc/1/mem").open("rb"),
        internet=lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        ptrace=lambda: system_call("ptrace", 16, os.getppid() or 1),
        read_other=lambda: system_call("process_vm_readv", 1, 0, 0, 0, 0, 0),
        unshare=lambda: system_call("unshare", namespaces.CLONE_NEWUSER),
        clone_namespace=lambda: system_call("clone", namespaces.CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0),
        clone3=lambda: system_call("clone3", 0, 0),
        bpf=lambda: system_call("bpf", 0, 0, 0),
        io_uring=lambda: system_call("io_uring_setup", 1, 0),
        userfaultfd=lambda: system_call("userfaultfd", 0),
        perf=lambda: system_call("perf_event_open", 0, 0, 0, 0, 0),
        session=os.setsid,
        set_clock=lambda: time.clock_settime(time.CLOCK_REALTIME, 0),
        more_memory=lambda: Path("/tmp/x").write_text("x"),
    )


EVERYWHERE = {
    "write_usr": READ_ONLY,
    "read_pass": "done",
    "write_cache": "done",
    "kill_init": PERMISSION,
    "internet": NO_FAMILY,
    "ptrace": PERMISSION,
    "read_other": PERMISSION,
    "unshare": PERMISSION,
    "clone_namespace": PERMISSION,
    "clone3": NO_CALL,
    "bpf": PERMISSION,
    "io_uring": PERMISSION,
    "userfaultfd": PERMISSION,
    "perf": PERMISSION,
    "session": PERMISSION,
    "set_clock": PERMISSION,
}


def check_full_box(outcome: dict[str, str], report: dict) -> None:
    assert report["level"] == "namespaces" and report["seccomp"] and not report["warnings"]
    assert report["namespaces"] == list(sandbox.ALL_NAMESPACES)
    for name, expected in EVERYWHERE.items():
        assert (name, outcome[name]) == (name, expected)
    assert outcome["write_pass"] == READ_ONLY
    assert outcome["core_pattern"] == READ_ONLY
    assert outcome["see_results"] in ("FileNotFoundError 2", "PermissionError 13")
    assert outcome["see_parent_of_pass"] in ("FileNotFoundError 2", "PermissionError 13")
    assert outcome["init_memory"] == "PermissionError 13"
    assert outcome["more_memory"] == "done"


def test_a_root_harness_boxes_the_child_without_root(folders: tuple[Path, Path, Path]) -> None:
    passes, cache, _ = folders
    before = set(Path("/tmp").glob("passnet-root-*"))
    outcome, report, status = run_boxed(lambda: probe(*folders), read_only=(passes,), writable=(cache,))
    check_full_box(outcome, report)
    assert status == 0
    if os.geteuid() == 0:
        assert report["uid"] >= 1_000_000_000
    assert (cache / "k").read_text() == "k" and (passes / "p.py").read_text() == "x = 1\n"
    left = set(Path("/tmp").glob("passnet-root-*")) - before  # those of other tests go away by themselves
    end = time.monotonic() + 20
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= set(Path("/tmp").glob("passnet-root-*"))
    assert not left


@as_root
def test_an_ordinary_user_gets_the_same_box(folders: tuple[Path, Path, Path]) -> None:
    passes, cache, _ = folders
    outcome, report, status = run_boxed(
        lambda: probe(*folders), read_only=(passes,), writable=(cache,), before=become_nobody(cache)
    )
    check_full_box(outcome, report)
    assert status == 0


@as_root
def test_without_user_namespaces_landlock_and_seccomp_remain(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes, cache, _ = folders

    def refuse(name: str, *args: object) -> int:
        if name in ("unshare", "clone"):
            raise OSError(1, "Operation not permitted")
        return syscalls.call(name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(namespaces, "call", refuse)
    monkeypatch.setattr(sandbox, "call", refuse)
    outcome, report, _ = run_boxed(
        lambda: probe(*folders), mode="auto", read_only=(passes,), writable=(cache,)
    )
    assert report["level"] == "filters" and report["landlock"] >= 1 and report["seccomp"]
    assert any("Operation not permitted" in line for line in report["warnings"])
    for name, expected in EVERYWHERE.items():
        if name != "write_usr":
            assert (name, outcome[name]) == (name, expected)
    assert outcome["write_pass"] == outcome["see_results"] == outcome["write_usr"] == "PermissionError 13"


@as_root
def test_require_fails_where_namespaces_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *args: object) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(namespaces, "call", refuse)
    monkeypatch.setattr(sandbox, "call", refuse)
    _, report, _ = run_boxed(lambda: None, mode="require")
    assert HarnessFailure.__name__ in report["failed"]


def test_off_still_clears_environment_and_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    leak = os.open("/etc/hostname", os.O_RDONLY)

    def look() -> list:
        return [os.environ.get("OPENAI_API_KEY"), attempts(stat=lambda: os.fstat(leak))["stat"]]

    try:
        (key, descriptor), report, _ = run_boxed(look, mode="off")
    finally:
        os.close(leak)
    assert key is None and descriptor == "OSError 9"
    assert report["level"] == "off"


@pytest.mark.parametrize("mode", ["require", "off"])
def test_the_end_of_the_boxed_process_is_reported_as_it_was(mode: str) -> None:
    assert os.waitstatus_to_exitcode(run_boxed(lambda: os._exit(7), mode=mode)[2]) == 7
    assert (
        os.WTERMSIG(run_boxed(lambda: os.kill(os.getpid(), signal.SIGSEGV), mode=mode)[2]) == signal.SIGSEGV
    )
    assert os.WTERMSIG(run_boxed(os.abort, mode=mode)[2]) == signal.SIGABRT


def test_numpy_torch_and_a_compiler_work_inside(folders: tuple[Path, Path, Path]) -> None:
    def work() -> list:
        import numpy as np
        import torch

        source = Path("/tmp/f.cpp")
        source.write_text('#include <cmath>\nextern "C" double f(double x) { return std::sqrt(x); }\n')
        command = ["g++", "-O2", "-shared", "-fPIC", "-fopenmp", "-o", "/tmp/f.so", str(source)]
        built = subprocess.run(command, capture_output=True, text=True)
        function = ctypes.CDLL("/tmp/f.so").f
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
        product = float((torch.ones(64, 64) @ torch.ones(64, 64)).sum())
        return [float(np.ones(3).sum()), product, built.stderr, function(2.25)]

    result, report, _ = run_boxed(work, writable=(folders[1],))
    assert result == [3.0, 64.0**3, "", 1.5], report


def test_a_triton_kernel_runs_under_its_interpreter_inside(folders: tuple[Path, Path, Path]) -> None:
    (folders[0] / "kernel.py").write_text(
        "import torch, triton\nimport triton.language as tl\n"
        "@triton.jit\n"
        "def double(x, y, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
        "x = torch.arange(10.0); y = torch.empty(10)\n"
        "double[(2,)](x, y, 10, BLOCK=8)\n"
        "print(y.tolist())\n"
    )

    def work() -> str:
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        ran = subprocess.run(
            [sys.executable, str(folders[0] / "kernel.py")], capture_output=True, text=True, env=environment
        )
        return ran.stdout or ran.stderr[-800:]

    result, _, _ = run_boxed(work, read_only=(folders[0],))
    assert result == f"{[2.0 * i for i in range(10)]}\n"


@pytest.mark.parametrize("user", ["caller", pytest.param("nobody", marks=as_root)])
def test_the_pid_in_the_box_is_the_one_outside(folders: tuple[Path, Path, Path], user: str) -> None:
    _, cache, _ = folders
    give_up = become_nobody(cache) if user == "nobody" else lambda: None

    def before() -> None:
        give_up()
        (cache / "outside").write_text(str(os.getpid()))

    def inside() -> list[str]:
        return [(cache / "outside").read_text(), str(os.getpid()), Path("/proc/self").readlink().name]

    seen = {tuple(run_boxed(inside, before=before, writable=(cache,))[0]) for _ in range(3)}
    assert len(seen) == 3 and all(len(set(numbers)) == 1 for numbers in seen)


def test_killing_the_waiter_kills_what_is_in_the_box() -> None:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        sandbox.enter(sandbox.SandboxSpec(mode="require", keep_fds=(write_end,)))
        for _ in range(3):
            if os.fork() == 0:
                break
        os.write(write_end, b"x")
        time.sleep(60)
        os._exit(0)
    os.close(write_end)
    seen = b""
    while len(seen) < 4:
        seen += os.read(read_end, 4)
    inside = descendants(pid)
    assert len(inside) >= 6  # waiter, init, the child and what it forked
    assert resident_bytes(inside) > 1 << 20
    start = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert os.read(read_end, 1) == b""  # every holder of the other end is gone
    assert time.monotonic() - start < 2
    os.close(read_end)


def test_a_fork_bomb_stops_at_its_limit() -> None:
    def bomb() -> int:
        children = 0
        try:
            while children < 200:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
                children += 1
        except BlockingIOError:
            pass
        return children

    children, _, _ = run_boxed(bomb, limits=Limits(processes=20))
    assert 10 <= children < 20


def test_private_tmp_is_bounded_and_empty() -> None:
    def fill() -> list:
        listed = [entry.name for entry in Path("/tmp").iterdir()]
        with Path("/tmp/big").open("wb") as file:
            written = 0
            try:
                while written < 64 << 20:
                    written += file.write(bytes(1 << 20))
                    file.flush()
            except OSError as error:
                return [listed, error.errno, written >> 20]
        return [listed, 0, written >> 20]

    (listed, errno, written), _, _ = run_boxed(fill, limits=Limits(tmp=8 << 20))
    shown = {path.parts[2] for path in runtime_dirs() if path.is_relative_to("/tmp")}  # a checkout in /tmp
    assert set(listed) <= shown and errno == 28 and written <= 8


def test_temporary_files_do_not_follow_the_harness_outside(
    folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, cache, _ = folders
    monkeypatch.setattr(tempfile, "tempdir", str(cache.parent))  # as a warm process has found it from TMPDIR

    def made() -> str:
        with tempfile.NamedTemporaryFile() as file:
            return str(Path(file.name).parent)

    result, report, _ = run_boxed(made, writable=(cache,))
    assert (result, report["level"]) == ("/tmp", "namespaces")


@pytest.mark.parametrize("known", [True, False])
def test_the_filter_asks_for_a_processor_at_full_speed(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[int] = []

    def call(name: str, mode: int, flag: int, program: object) -> int:
        flags.append(flag)
        if flag and not known:
            raise OSError(errno.EINVAL, "an older kernel")
        return 0

    monkeypatch.setattr(seccomp, "call", call)
    monkeypatch.setattr(seccomp, "prctl", lambda *_: 0)
    seccomp.install(pid_namespace=True, ipc_namespace=True)
    assert flags == ([4] if known else [4, 0])  # SECCOMP_FILTER_FLAG_SPEC_ALLOW of linux/seccomp.h
