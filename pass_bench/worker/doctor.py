"""`passbench doctor`: what this machine can do and what is missing, one line each."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import click

from pass_bench.errors import HarnessFailure

State = Literal["ok", "missing", "note"]
MARKS = {"ok": ("✓", "green"), "missing": ("✗", "red"), "note": ("·", "yellow")}
CHECK_TIMEOUT_S = 120
TRIED = """void twice(float* x, int64_t n) {
  pn::parallel_for(n, 1, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) x[i] *= 2;
  });
}"""


@dataclass(frozen=True)
class Finding:
    """One line of the report. `needed` findings that are missing mean that nothing can be evaluated here."""

    name: str
    state: State
    words: str
    needed: bool = False


def python_and_torch() -> Iterator[Finding]:
    """Look at the interpreter and PyTorch."""
    version = platform.python_version()
    fits = sys.version_info >= (3, 11)
    yield Finding(
        "python", "ok" if fits else "missing", f"{version}{'' if fits else ' (3.11 or later)'}", True
    )
    found = importlib.util.find_spec("torch") is not None
    if not found:
        yield Finding("torch", "missing", "not installed: pip install -r requirements.txt", True)
        return
    from importlib.metadata import version as installed

    words = installed("torch")
    numbers = tuple(int(part) for part in words.split("+")[0].split(".")[:2])
    known = (2, 9) <= numbers <= (2, 14)
    yield Finding(
        "torch", "ok" if known else "note", words if known else f"{words} (tried with 2.9 to 2.14)", True
    )


def cpu() -> Finding:
    """Look at the processor: C++ passes are compiled for it."""
    from pass_bench.worker.cpuinfo import cpu_features, cpu_name

    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    words = f"{cpu_name()}, {', '.join(cpu_features()) or 'no vector extension we know'}"
    if load > cores / 2:
        return Finding("cpu", "note", f"{words}; load {load:.1f}: times will be noisy")
    return Finding("cpu", "ok", words)


def compiler() -> Finding:
    """Compile, load and call a C++ kernel, in a process of its own: wrong machine code kills it."""
    code = "import sys; from pass_bench.worker.doctor import try_kernel; try_kernel(sys.argv[1])"
    with tempfile.TemporaryDirectory(prefix="passnet-doctor-") as folder:
        said = checked([sys.executable, "-c", code, folder])
    works, _, words = (said or "").strip().partition("|")
    if works != "works":
        why = words or "a process that runs a compiled kernel fails"
        return Finding("C++ compiler", "missing", f"{why}: C++ passes cannot run")
    named = os.environ.get("CXX")
    if named and shutil.which(named) is None:
        return Finding("C++ compiler", "note", f"{words}; $CXX is {named}, which is not there")
    return Finding("C++ compiler", "ok", words)


def try_kernel(folder: str) -> None:
    """Run a C++ kernel compiled into a folder; print "works|" and the compiler, or "fails|" and why."""
    from pass_bench.worker.faults import one_line

    os.environ["PASSNET_KERNEL_CACHE"] = folder
    try:
        import torch

        from pass_bench.kernels import cpp_kernel
        from pass_bench.kernels.extension import compiler as found

        _, version = found()
        x = torch.ones(3)
        cpp_kernel(TRIED, "twice(float* x, int64_t n)")(x, 3)
        assert x.tolist() == [2.0] * 3, "a compiled kernel computes something else"
    except Exception as error:
        print(f"fails|{one_line(str(error))}")
    else:
        print(f"works|{version}")


def checked(command: list[str]) -> str | None:
    """Run a command; return its output, None if it failed."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=CHECK_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


def worker(device: Literal["cpu", "cuda"]) -> Iterator[Finding]:
    """Start the workers of a device and ask them what they find."""
    from pass_bench.results.records import EvalSettings
    from pass_bench.worker.evaluate import Evaluator

    try:
        with Evaluator(EvalSettings(device=device, compiler="nope")) as evaluator:
            environment = evaluator.environment
            assert environment is not None
    except Exception as error:
        yield Finding(f"{device} worker", "missing", str(error), needed=device == "cpu")
        return
    words = f"{environment.device_name}, {environment.threads} threads"
    if device == "cuda":
        words = f"{environment.device_name}, driver {environment.driver or 'unknown'}"
    yield Finding(f"{device} worker", "ok", words, needed=device == "cpu")


def cuda() -> Iterator[Finding]:
    """Look for a GPU and for what compiles CUDA C++."""
    from pass_bench.worker.evaluate import cuda_may_exist

    if not cuda_may_exist():
        yield Finding("cuda", "note", "no NVIDIA GPU: graphs run on the CPU, Triton under its interpreter")
        return
    yield from worker("cuda")
    nvrtc = list_nvrtc()
    yield Finding(
        "nvrtc", "ok" if nvrtc else "missing", nvrtc or "not found: CUDA C++ passes cannot be compiled"
    )


def list_nvrtc() -> str:
    """Return the version of the CUDA run-time compiler, "" without one."""
    try:
        from pass_bench.kernels.nvrtc import version

        return "CUDA C++ " + ".".join(map(str, version()))
    except Exception:  # no library, or one that does not answer
        return ""


def triton() -> Finding:
    """Look at Triton."""
    if importlib.util.find_spec("triton") is None:
        return Finding("triton", "missing", "not installed: Triton passes cannot run")
    from importlib.metadata import version

    return Finding("triton", "ok", version("triton"))


def sandbox() -> Finding:
    """Enter the sandbox in a process of its own and say what it is made of."""
    code = (
        "from pass_bench.guard.sandbox import SandboxSpec, enter\n"
        "import os\n"
        "report = enter(SandboxSpec(environment=dict(os.environ)))\n"
        "print(report.level, '+'.join(report.namespaces) or '-', report.landlock, report.seccomp, sep='|')\n"
        "print('; '.join(report.warnings))\n"
    )
    said = checked([sys.executable, "-c", code])
    if said is None or "|" not in said:
        return Finding("sandbox", "missing", "a child cannot enter it; use --sandbox off")
    first, _, warnings = said.partition("\n")
    level, names, landlock, seccomp = first.strip().split("|")
    parts = [f"namespaces {names}" if names != "-" else "no namespaces"]
    parts.append(f"Landlock {landlock}" if landlock != "0" else "no Landlock")
    parts.append("seccomp" if seccomp == "True" else "no seccomp")
    words = ", ".join(parts)
    if level == "namespaces":
        return Finding("sandbox", "ok", words)
    return Finding("sandbox", "note", f"{words} ({warnings.strip()})" if warnings.strip() else words)


def programs() -> Iterator[Finding]:
    """Look for what only some commands need."""
    chromium = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), "")
    yield (
        Finding("chromium", "ok", chromium)
        if chromium
        else Finding("chromium", "note", "none: HTML reports are written, but not tested in a browser here")
    )
    docker = shutil.which("docker")
    if docker is None:
        yield Finding("docker", "note", "none: the agent runs its evaluations as local processes")
    elif checked([docker, "info", "--format", "{{.ServerVersion}}"]) is None:
        yield Finding("docker", "note", f"{docker}, but no engine answers")
    else:
        yield Finding("docker", "ok", docker)


def findings() -> Iterator[Finding]:
    """Yield all findings, quick ones first."""
    yield from python_and_torch()
    yield cpu()
    yield compiler()
    yield triton()
    yield from cuda()
    yield sandbox()
    yield from worker("cpu")
    yield from programs()


@click.command("doctor")
def doctor_command() -> int:
    """Say what this machine can do and what is missing."""
    return report(findings, click.echo)


def report(look: Callable[[], Iterator[Finding]], say: Callable[[str], None]) -> int:
    """Print findings as they come; raises HarnessFailure if something needed is missing."""
    lacking = []
    for finding in look():
        mark, colour = MARKS[finding.state]
        say(f"{click.style(mark, fg=colour)} {finding.name:<13} {finding.words}")
        if finding.needed and finding.state == "missing":
            lacking.append(finding.name)
    if lacking:
        raise HarnessFailure(f"nothing can be evaluated here without {', '.join(lacking)}")
    return 0
