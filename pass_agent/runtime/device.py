"""The name of this machine's GPU, without importing torch."""

from __future__ import annotations

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
