"""The least time a correct kernel needs: the bytes it must write, and one launch; no torch.

Only outputs count, since which inputs a graph must read is not known without running it. Bandwidths are
peaks that no kernel reaches, so that the floor is never above an honest time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """Bytes per second into cache and into memory, bytes of cache, seconds of a launch."""

    cache_bandwidth: float
    cache_bytes: int
    memory_bandwidth: float
    launch_s: float


# Vendors' datasheets; cache bandwidth: 64 bytes per clock and SM. The launch is below any that was measured.
GPUS = {
    "H200": Machine(17e12, 60 << 20, 4.8e12, 1.5e-6),
    "H100": Machine(17e12, 50 << 20, 3.4e12, 1.5e-6),
    "A100": Machine(10e12, 40 << 20, 2.1e12, 1.5e-6),
}
OTHER_GPU = Machine(40e12, 256 << 20, 16e12, 1.5e-6)
STORE_BYTES_PER_SECOND = 64 * 6e9  # one 64-byte store per clock of a 6 GHz core


def floor_us(written_bytes: int, device: str, device_name: str = "", cores: int | None = None) -> float:
    """Microseconds that writing `written_bytes` takes at least; 0 for a graph that writes nothing."""
    if written_bytes <= 0:
        return 0.0
    if device == "cpu":
        return written_bytes / (STORE_BYTES_PER_SECOND * (cores or os.cpu_count() or 1)) * 1e6
    machine = next((known for name, known in GPUS.items() if name in device_name), OTHER_GPU)
    cached = min(written_bytes, machine.cache_bytes)
    seconds = cached / machine.cache_bandwidth + (written_bytes - cached) / machine.memory_bandwidth
    return (machine.launch_s + seconds) * 1e6
