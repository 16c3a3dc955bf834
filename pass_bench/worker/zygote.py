"""The warm process that children are forked from: it imports, and never does anything else.

    python -m pass_bench.worker.zygote SOCKET_FD PRELOAD

One zygote serves one device kind: TRITON_INTERPRET must be in its environment before triton is imported. It
never runs a tensor operation (a thread pool does not survive a fork) and never touches a device. It adopts
the orphans of its children, so that a process that a pass left running is found and killed.
"""

from __future__ import annotations

import gc
import importlib
import os
import resource
import signal
import socket
import sys

from pass_bench.guard.syscalls import prctl
from pass_bench.worker.messages import ForkRequest, ReapRequest, ZygoteReply, ZygoteRequest
from pass_bench.worker.protocol import Channel, PeerClosed

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
THREADS_BESIDE_GPU = 4  # several graphs prepare at once, and only their inputs are made on the CPU
PRELOAD = {
    "base": (
        "torch",
        "torch.fx",
        "triton",
        "triton.language",
        "numpy",
        "pass_bench.fx",
        "pass_bench.inputs",
    ),
    "dynamo": ("torch._dynamo", "torch._dynamo.convert_frame"),
    "rewrite": (
        "torch.fx.experimental.symbolic_shapes",
        "torch.fx.experimental.validator",
        "torch._subclasses.fake_tensor",
        "pass_bench.fx",
        "pass_bench.passes",
        "pass_bench.runtime",
    ),
    "inductor": ("torch._inductor.compile_fx", "torch._inductor.codecache"),
}
ROLES = {
    "reference": "pass_bench.worker.reference",
    "candidate": "pass_bench.worker.candidate",
}


def preload(groups: list[str]) -> int:
    """Import what children need; return their thread count: PyTorch's, fewer beside a GPU."""
    if "TRITON_INTERPRET" not in os.environ:
        # On a GPU the import of Inductor starts CUDA, which no child could use then: children import it.
        groups = [group for group in groups if group != "inductor"]
    for group in groups:
        for name in PRELOAD[group]:
            try:
                importlib.import_module(name)
            except ImportError:
                if name.split(".")[0] != "triton":
                    raise
    import torch

    from pass_bench.kernels import interpreter

    if interpreter.is_interpreted():
        interpreter.enable()  # rounds bfloat16 as eager does, takes first configs, names what needs a GPU
    threads = torch.get_num_threads()
    if "TRITON_INTERPRET" not in os.environ:
        threads = min(threads, THREADS_BESIDE_GPU)
    torch.set_num_threads(1)
    for role in ROLES.values():
        importlib.import_module(role)
    return threads


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123 (a proc file; Path adds nothing)
            return [int(word) for word in file.read().split()]
    except OSError:
        found = []
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdigit():
                try:
                    with open(f"/proc/{entry}/stat") as file:  # noqa: PTH123
                        parent = int(file.read().rpartition(")")[2].split()[1])
                except (OSError, ValueError, IndexError):
                    continue
                if parent == pid:
                    found.append(int(entry))
        return found


def kill_strays(live: set[int]) -> None:
    """Kill every adopted process until there is none."""
    for _ in range(1000):
        strays = [pid for pid in children_of(os.getpid()) if pid not in live]
        if not strays:
            break
        for pid in strays:
            try:
                os.kill(pid, signal.SIGSTOP)  # stopped first: a fork bomb cannot outrun the killing
            except ProcessLookupError:
                pass
        for pid in strays:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def close_descriptors(keep: int) -> None:
    """Close everything from 3 up except `keep`."""
    limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20)
    os.closerange(3, keep)
    os.closerange(keep + 1, limit)


def run_child(role: str, connection: int, stdout: int, stderr: int, threads: int) -> None:
    """Become the child: own session, own output, no other descriptors; never returns."""
    status = 70
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        prctl(PR_SET_CHILD_SUBREAPER, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        close_descriptors(connection)
        os.environ.pop("OPENBLAS_NUM_THREADS", None)
        import torch

        torch.set_num_threads(threads)
        channel = Channel(socket.socket(fileno=connection))
        importlib.import_module(ROLES[role]).main(channel, threads)
        status = 0
    except PeerClosed:
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)


class Zygote:
    """The request loop."""

    def __init__(self, channel: Channel, threads: int):
        self._channel = channel
        self._threads = threads
        self._live: set[int] = set()

    def serve(self) -> None:
        """Answer requests until the supervisor goes away; then end all children."""
        try:
            while True:
                request, descriptors = self._channel.receive(ZygoteRequest)
                if isinstance(request.request, ForkRequest):
                    reply = self._fork(request.request, descriptors)
                else:
                    reply = self._reap(request.request)
                self._channel.send(reply)
        except PeerClosed:
            pass
        finally:
            for pid in self._live:
                try:
                    os.killpg(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            kill_strays(set())

    def _fork(self, request: ForkRequest, descriptors: tuple[int, ...]) -> ZygoteReply:
        try:
            connection, stdout, stderr = descriptors
            pid = os.fork()
        except (ValueError, OSError) as error:
            for descriptor in descriptors:
                os.close(descriptor)
            return ZygoteReply(error=f"fork: {error}")
        if pid == 0:
            run_child(request.role, connection, stdout, stderr, self._threads)
        for descriptor in descriptors:
            os.close(descriptor)
        self._live.add(pid)
        return ZygoteReply(pid=pid)

    def _reap(self, request: ReapRequest) -> ZygoteReply:
        if request.pid not in self._live:
            return ZygoteReply(error=f"{request.pid} is no child of this zygote")
        try:
            os.killpg(request.pid, signal.SIGKILL)  # its session: what it forked without daemonising
        except (ProcessLookupError, PermissionError):
            pass
        _, status = os.waitpid(request.pid, 0)
        self._live.discard(request.pid)
        kill_strays(self._live)
        return ZygoteReply(pid=request.pid, status=status)


def main(arguments: list[str]) -> None:
    """Import, say ready, serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's business
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    threads = preload(arguments[1].split(","))
    running = len(os.listdir("/proc/self/task"))  # noqa: PTH208
    if running != 1:
        raise SystemExit(f"the worker has {running} threads after its imports; children would hang")
    gc.collect()
    gc.freeze()
    channel.send(ZygoteReply(pid=os.getpid()))
    Zygote(channel, threads).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
