"""What the processor is called and can do, from /proc/cpuinfo; no torch."""

from __future__ import annotations

import os
import platform
from pathlib import Path

VECTOR_FLAGS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_bf16": "AVX-512 BF16",
    "avx512_fp16": "AVX-512 FP16",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "sve": "SVE",
}


def cpu_field(*names: str) -> str:
    """Return the first field of /proc/cpuinfo with one of these names, "" if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in names:
            return value.strip()
    return ""


def cpu_name() -> str:
    """Return the processor's model name and the number of cores we may use."""
    name = cpu_field("model name") or platform.processor() or platform.machine()
    return f"{name} ({len(os.sched_getaffinity(0))} cores)"


def cpu_features() -> list[str]:
    """Return the vector extensions that kernels can use."""
    flags = set(cpu_field("flags", "Features").split())
    return [name for flag, name in VECTOR_FLAGS.items() if flag in flags]


def busy_warning(load: float, processors: int) -> str:
    """Say what a load average above twice the number of processors does to times on a CPU, "" below that."""
    if load <= 2 * processors:
        return ""
    return (
        f"the machine was busy (load average {load:.1f} on {processors} processors): eager's threads wait "
        "for each other then, so its time, and the speedup, can be far too large"
    )
