"""The supervisor's side of zygote and children: start, talk, kill, collect output; no torch."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

from pydantic import BaseModel

from pass_bench.errors import HarnessFailure
from pass_bench.guard.processes import descendants
from pass_bench.worker.captured import Output
from pass_bench.worker.cores import Cores
from pass_bench.worker.messages import ForkRequest, ReapRequest, ZygoteReply, ZygoteRequest
from pass_bench.worker.protocol import Channel, Deadline, PeerClosed, PeerTimeout, channel_pair

START_TIMEOUT_S = 180.0
END_TIMEOUT_S = 5
# TMPDIR is left out: what libraries make of it when they are imported would point out of the box.
KEPT_ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "LIBRARY_PATH", "CPATH", "CC", "CXX", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH", "LD_PRELOAD",
)  # fmt: skip
KEPT_PREFIXES = (
    "LC_", "CUDA_", "NVIDIA_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_", "OMP_", "MKL_", "KMP_",
    "GOMP_", "MALLOC_", "CUBLAS_", "NVTE_", "PASSNET_",
)  # fmt: skip
R = TypeVar("R", bound=BaseModel)


class ChildDied(Exception):
    """A child ended before it answered; `how` says it in words, `signal` is 0 for a plain exit."""

    def __init__(self, how: str, signal_number: int = 0):
        super().__init__(how)
        self.how = how
        self.signal = signal_number


def clean_environment(device: str, visible: str | None = None) -> dict[str, str]:
    """Return the environment of the zygote: what compilers and devices need, and no keys or tokens.

    `visible` replaces CUDA_VISIBLE_DEVICES.
    """
    secret = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name in KEPT_ENVIRONMENT or name.startswith(KEPT_PREFIXES)) and not any(w in name for w in secret)
    }
    kept.pop("TRITON_INTERPRET", None)
    if visible is not None:
        kept["CUDA_VISIBLE_DEVICES"] = visible
    if device == "cpu":
        kept["TRITON_INTERPRET"] = "1"
        kept["CUDA_VISIBLE_DEVICES"] = ""
    package_parent = str(Path(__file__).resolve().parent.parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join([package_parent, *filter(None, [os.environ.get("PYTHONPATH")])])
    kept["PYTHONDONTWRITEBYTECODE"] = "1"
    # Inductor's pool would start one Python with torch per core, in every child, to compile a kernel or two.
    kept.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    kept["OPENBLAS_NUM_THREADS"] = "1"  # numpy's own pool would start a thread before the fork
    kept["KINETO_LOG_LEVEL"] = "5"  # measuring memory would write to the captured output of the pass
    return kept


class Child:
    """A forked child: ask it, kill it, read its output. A context manager that leaves nothing running."""

    def __init__(self, zygote: ZygoteProcess, pid: int, channel: Channel, stdout: Output, stderr: Output):
        self._zygote = zygote
        self.pid = pid
        self._pidfd = os.pidfd_open(pid)
        self._channel = channel
        self.stdout = stdout
        self.stderr = stderr
        self._lock = threading.Lock()
        self._ended: str | None = None
        self._signal = 0
        self._paused = False
        self._paused_since = 0.0
        self._paused_s = 0.0

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def send(self, message: BaseModel, descriptors: tuple[int, ...] = (), deadline: Deadline = None) -> None:
        """Send a request; raises ChildDied, PeerTimeout."""
        try:
            self._channel.send(message, descriptors, deadline)
        except PeerClosed:
            raise self._died() from None

    def receive(self, kind: type[R], deadline: Deadline) -> tuple[R, tuple[int, ...]]:
        """Read the answer; raises ChildDied, PeerTimeout, ProtocolError."""
        try:
            return self._channel.receive(kind, deadline)
        except PeerClosed:
            raise self._died() from None

    @property
    def alive(self) -> bool:
        """Whether it runs, or is stopped."""
        return not self._has_ended(0)

    def _has_ended(self, wait_ms: int) -> bool:
        return ended(self._pidfd, wait_ms)

    def _died(self) -> ChildDied:
        if not self._has_ended(1000):
            self.kill()
            return ChildDied("closed its connection and went on running")
        self.kill()
        return ChildDied(self._ended or "ended", self._signal)

    def kill(self) -> None:
        """End the child, its session and its orphans; may be called more than once."""
        with self._lock:
            if self._ended is None:
                self._end()

    @property
    def paused_s(self) -> float:
        """Seconds for which it has been stopped so far."""
        return self._paused_s + (time.monotonic() - self._paused_since if self._paused else 0.0)

    def pause(self) -> None:
        """Stop the child and all it has started, until `resume`; one that left its group goes on."""
        with self._lock:
            if self._ended is None and not self._paused:
                self._paused_since = time.monotonic()
                self._paused = True
                self._signal_group(signal.SIGSTOP)

    def resume(self) -> None:
        """Let what `pause` stopped go on."""
        with self._lock:
            if self._ended is None and self._paused:
                self._signal_group(signal.SIGCONT)
                self._paused_s += time.monotonic() - self._paused_since
            self._paused = False

    def run_on(self, processors: Collection[int], main: int | None = None) -> None:
        """Let all threads of the child and of what it has started run on these processors only.

        `main`: first threads on this one of them, the others on the rest of them.
        """
        first = processors if main is None else {main}
        others = set(processors) - {main} or processors
        with self._lock:
            if self._ended is not None:
                return
            for pid in descendants(self.pid):
                with contextlib.suppress(OSError):
                    for task in Path(f"/proc/{pid}/task").iterdir():
                        with contextlib.suppress(OSError):
                            os.sched_setaffinity(int(task.name), first if int(task.name) == pid else others)

    def _signal_group(self, number: int) -> None:
        """Signal its session, in its box or outside: one call, however many processes there are."""
        for send in (os.killpg, os.kill):  # it may not have its own session yet
            try:
                send(self.pid, number)
                return
            except (ProcessLookupError, PermissionError):
                continue

    def _end(self) -> None:
        """Kill and reap.

        All waiting is done here and not in the zygote, which serves one request at a time: a process with a
        CUDA context needs some tenths of a second to die. What runs in the box goes first, while the waiter
        outside still is its parent.
        """
        end_descendants(self.pid)
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._has_ended(1000 * END_TIMEOUT_S)
        reply = self._zygote.ask(ReapRequest(pid=self.pid))
        os.close(self._pidfd)
        self._channel.close()
        if os.WIFSIGNALED(reply.status):
            self._signal = os.WTERMSIG(reply.status)
            self._ended = f"was killed by {signal_name(self._signal)}"
        else:
            self._ended = f"exited with status {os.WEXITSTATUS(reply.status)}"


def end_descendants(pid: int) -> None:
    """Kill everything below a process, and wait until it is gone."""
    handles = []
    for each in descendants(pid)[1:]:
        with contextlib.suppress(OSError):
            handles.append(os.pidfd_open(each))
    try:
        for handle in handles:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        deadline = time.monotonic() + END_TIMEOUT_S
        for handle in handles:
            ended(handle, max(0, int(1000 * (deadline - time.monotonic()))))
    finally:
        for handle in handles:
            os.close(handle)


def ended(pidfd: int, wait_ms: int) -> bool:
    """Whether a process has ended, or does so within some milliseconds."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(wait_ms))


def signal_name(number: int) -> str:
    """Return "SIGSEGV (segmentation fault)" and the like."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    words = signal.strsignal(number)
    return f"{name} ({words.lower()})" if words else name


class ZygoteProcess:
    """A running zygote. A context manager; closing it ends all its children."""

    def __init__(
        self,
        device: Literal["cpu", "cuda"],
        preload: tuple[str, ...] = ("base",),
        visible: str | None = None,
        cores: Cores | None = None,
    ):
        self.device = device
        self._lock = threading.Lock()
        self._channel, theirs = channel_pair()
        with theirs:
            os.set_inheritable(theirs.fileno(), True)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pass_bench.worker.zygote", str(theirs.fileno()), ",".join(preload)],
                env=clean_environment(device, visible),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,
            )
        if cores is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(self._process.pid, cores.rest)
        assert self._process.stderr is not None
        self._stderr = Output(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()
        self._ready = False

    def __enter__(self) -> ZygoteProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait_ready(self) -> None:
        """Wait for the imports to end; raises HarnessFailure with what the zygote said."""
        if self._ready:
            return
        try:
            self._channel.receive(ZygoteReply, time.monotonic() + START_TIMEOUT_S)
        except (PeerClosed, PeerTimeout) as error:
            raise HarnessFailure(f"the worker could not start: {self._last_line() or error}") from None
        self._ready = True

    def ask(self, request: ForkRequest | ReapRequest, descriptors: tuple[int, ...] = ()) -> ZygoteReply:
        """Send one request and wait for its answer; raises HarnessFailure if the zygote is lost."""
        self.wait_ready()
        try:
            with self._lock:
                self._channel.send(ZygoteRequest(request=request), descriptors)
                reply, _ = self._channel.receive(ZygoteReply, time.monotonic() + START_TIMEOUT_S)
        except (PeerClosed, PeerTimeout) as error:
            raise HarnessFailure(f"the worker was lost: {self._last_line() or error}") from None
        return reply

    def fork(self, role: Literal["reference", "candidate"]) -> Child:
        """Return a fresh child; raises HarnessFailure."""
        channel, theirs = channel_pair()
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        with theirs:
            try:
                reply = self.ask(ForkRequest(role=role), (theirs.fileno(), out_write, err_write))
            finally:
                os.close(out_write)
                os.close(err_write)
        if reply.error:
            raise HarnessFailure(f"no process for a graph: {reply.error}")
        return Child(self, reply.pid, channel, Output(out_read), Output(err_read))

    def close(self) -> None:
        """End the zygote and everything below it."""
        self._channel.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _last_line(self) -> str:
        lines = self._stderr.text().strip().splitlines()
        return lines[-1] if lines else ""
