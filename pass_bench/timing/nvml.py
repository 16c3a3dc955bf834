"""What NVML, the driver's own library, says about a GPU's clocks; no torch, and no process to start.

A query takes some ten microseconds, `nvidia-smi` a good part of a second. The functions and constants are
those of the NVML API Reference (nvml.h).
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

LIBRARY = "libnvidia-ml.so.1"
CLOCK_SM, CLOCK_MEMORY = 1, 2
# Slowed down by the hardware: HW slowdown, software and hardware thermal slowdown, power brake.
SLOWDOWN = 0x08 | 0x20 | 0x40 | 0x80


@dataclass(frozen=True)
class ClockReading:
    """The clock of the multiprocessors, and whether the hardware says that it slows itself down."""

    sm_mhz: int
    slowdown: bool = False


class Gpu:
    """One GPU as NVML knows it. Raises OSError where there is no NVML or no such GPU.

    `visible` is the CUDA_VISIBLE_DEVICES that picks it: a number in PCI order, or a UUID.
    """

    def __init__(self, visible: str | None = None):
        library = ctypes.CDLL(LIBRARY)
        self._library = library
        self._handle = ctypes.c_void_p()
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible
        first = chosen.split(",")[0].strip() or "0"
        self._call("nvmlInit_v2")
        if first.isdigit():
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(first)), ctypes.byref(self._handle))
        else:
            self._call("nvmlDeviceGetHandleByUUID", first.encode(), ctypes.byref(self._handle))

    def _call(self, name: str, *arguments: object) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise OSError(f"{LIBRARY} has no {name}") from None
        if code != 0:
            raise OSError(f"{name}: error {code}")

    def _number(self, name: str, *arguments: object, kind: type = ctypes.c_uint) -> int:
        value = kind()
        self._call(name, self._handle, *arguments, ctypes.byref(value))
        return int(value.value)

    def read(self) -> ClockReading:
        """Return the clock of this moment; raises OSError where the GPU does not say (a MIG slice)."""
        clock = self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(CLOCK_SM))
        try:
            reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons", kind=ctypes.c_ulonglong)
        except OSError:
            reasons = 0
        return ClockReading(clock, bool(reasons & SLOWDOWN))

    def highest_clocks(self) -> str:
        """Return the highest clocks that the driver allows, in words."""
        kinds = {"sm": CLOCK_SM, "memory": CLOCK_MEMORY}
        clocks = {
            name: self._number("nvmlDeviceGetMaxClockInfo", ctypes.c_uint(kind))
            for name, kind in kinds.items()
        }
        return ", ".join(f"{name} {mhz} MHz" for name, mhz in clocks.items())


def highest_clocks(visible: str | None = None) -> str:
    """Return the highest clocks of a GPU in words, "" where nobody says."""
    try:
        return Gpu(visible).highest_clocks()
    except OSError:
        return ""
