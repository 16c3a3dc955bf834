"""Notices that a device lowers its clock while trials run; no torch."""

from __future__ import annotations

from collections.abc import Callable

from pass_bench.timing.nvml import ClockReading, Gpu

DROP = 0.1  # a clock lower by this share than the highest seen is a drop
Source = Callable[[], ClockReading]


class ClockWatch:
    """Looks at a clock before and after each block of trials.

    `source` may raise OSError: nothing is noticed then. None: there is no clock to look at.
    """

    def __init__(self, source: Source | None):
        self._source = source
        self._highest = self._before = 0

    def begin(self) -> None:
        """Look at the clock before a block."""
        reading = self._read()
        self._before = reading.sm_mhz if reading is not None else 0

    def dropped(self) -> str:
        """Say in words how the clock was lower during the block than it can be, "" if it was not."""
        reading = self._read()
        if reading is None or not self._before:
            return ""
        lowest = min(reading.sm_mhz, self._before)
        if lowest < (1 - DROP) * self._highest:
            return f"its clock was {lowest} MHz, and {self._highest} MHz at another time"
        return f"it slows itself down at {reading.sm_mhz} MHz" if reading.slowdown else ""

    def _read(self) -> ClockReading | None:
        if self._source is None:
            return None
        try:
            reading = self._source()
        except OSError:
            self._source = None
            return None
        self._highest = max(self._highest, reading.sm_mhz)
        return reading


def clock_source(device: str, visible: str | None) -> Source | None:
    """Return what reads the clock of a device, None where nobody tells it."""
    if device != "cuda":
        return None
    try:
        return Gpu(visible).read
    except OSError:
        return None
