"""What machine a child runs on, and with which versions."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Literal

import torch

from pass_bench.results.records import EnvironmentRecord
from pass_bench.timing.calibrate import read_calibration
from pass_bench.timing.nvml import highest_clocks
from pass_bench.worker.cpuinfo import cpu_name
from pass_bench.worker.messages import ProbeReply


def probe(device: Literal["cpu", "cuda"]) -> ProbeReply:
    """Describe this machine; `cuda_available` is asked of PyTorch only for "cuda"."""
    available = device == "cuda" and torch.cuda.is_available()
    kind: Literal["cpu", "cuda"] = "cuda" if available else "cpu"
    return ProbeReply(
        environment=EnvironmentRecord(
            harness=version_of("passnet") or "source",
            python=platform.python_version(),
            torch=torch.__version__,
            triton=version_of("triton"),
            device=kind,
            device_name=device_name(kind),
            driver=driver_version() if available else "",
            cpu=cpu_name(),
            threads=torch.get_num_threads(),
            tf32=bool(torch.backends.cuda.matmul.allow_tf32),
            commit=commit_of(Path(__file__).resolve().parents[2]),
            clocks=highest_clocks() if available else "",
            calibration=read_calibration(kind, device_name(kind)),
        ),
        cuda_available=available,
    )


def device_name(device: Literal["cpu", "cuda"]) -> str:
    """Return the name of the device that graphs run on."""
    return torch.cuda.get_device_name() if device == "cuda" else cpu_name()


def version_of(package: str) -> str:
    """Return the installed version, "" if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def driver_version() -> str:
    """Return the NVIDIA driver's version, "" if unknown."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    words = text.split()
    return next((word for word in words if word[0].isdigit() and "." in word), "")


def commit_of(root: Path) -> str:
    """Return the commit of the checkout that holds the package, read from .git without starting git."""
    try:
        head = (root / ".git" / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        ref = head.removeprefix("ref: ")
        loose = root / ".git" / ref
        if loose.exists():
            return loose.read_text().strip()
        for line in (root / ".git" / "packed-refs").read_text().splitlines():
            if line.endswith(" " + ref):
                return line.split()[0]
    except OSError:
        pass
    return ""
