"""The GPUs of this machine, without importing torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache


@lru_cache(maxsize=1)
def device_name() -> str:
    """The first GPU's name as the driver gives it; "" without one."""
    if shutil.which("nvidia-smi") is None:
        return ""
    try:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return listed.strip().splitlines()[0] if listed.strip() else ""


@lru_cache(maxsize=4)
def find_devices(device: str) -> tuple[str, ...]:
    """The devices to take turns on: GPU indices, or ("cpu",) without a GPU or where `device` is cpu."""
    if device == "cpu" or shutil.which("nvidia-smi") is None:
        return ("cpu",)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return tuple(name.strip() for name in visible.split(",") if name.strip()) or ("cpu",)
    try:
        query = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
        listed = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ("cpu",)
    return tuple(line.strip() for line in listed.splitlines() if line.strip()) or ("cpu",)
