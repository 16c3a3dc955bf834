"""Cores that only the timed process uses, so that neighbours neither evict nor delay it; no torch."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

CORES_PER_GPU = 4  # fewer, and none is set aside

Siblings = Callable[[int], frozenset[int]]


@dataclass(frozen=True)
class Cores:
    """Logical processors for the graph that is timed on one device, and for everything else."""

    timed: frozenset[int]
    rest: frozenset[int]

    @property
    def main(self) -> int:
        """The one for first threads. Siblings may differ in speed by half on a virtual machine, and a process
        stays where it is: two of them, timed one after the other, would not compare.
        """
        return max(self.timed)


def siblings_of(processor: int) -> frozenset[int]:
    """Return the logical processors that share a core with this one, itself among them."""
    path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        return parse_processors(path.read_text()) | {processor}
    except (OSError, ValueError):
        return frozenset({processor})


def parse_processors(text: str) -> frozenset[int]:
    """Read the kernel's notation: "0-3,8". Raises ValueError."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def gpu_count() -> int:
    """Return how many NVIDIA GPUs this machine has."""
    return sum(bool(re.fullmatch(r"/dev/nvidia\d+", name)) for name in map(str, Path("/dev").glob("nvidia*")))


def share_out(
    processors: Collection[int], gpus: int, visible: str, siblings: Siblings = siblings_of
) -> Cores | None:
    """Set a whole core aside for each GPU, the last ones; `visible` says whose is asked for.

    None where there are too few cores, or no GPU: eager on a CPU needs all of them.
    """
    cores = sorted({siblings(p) & frozenset(processors) for p in processors}, key=min)
    if gpus < 1 or len(cores) < CORES_PER_GPU * gpus:
        return None
    first = visible.split(",")[0]
    number = int(first) % gpus if first.isdigit() else 0
    kept = cores[-gpus:]
    return Cores(kept[number], frozenset(processors) - frozenset().union(*kept))


def cores_for(device: str, visible: str | None) -> Cores | None:
    """Return the cores for a device of this machine; `visible` as CUDA_VISIBLE_DEVICES has it."""
    if device != "cuda":
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "") if visible is None else visible
    return share_out(os.sched_getaffinity(0), gpu_count(), chosen)
