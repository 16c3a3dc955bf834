"""All stages on a zoo of toys, in a process of its own: `python toy_pipeline.py WORK`. Names every stage."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pass_bench.dataset import pipeline
from pass_bench.dataset.plan import Budget
from pass_bench.dataset.zoo import others
from pass_bench.dataset.zoo.entry import Built, Entry
from pass_bench.dataset.zoo.harvest import catalog, harvest


class Block(torch.nn.Module):
    def __init__(self, width: int, gate: str):
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width)
        self.down, self.gate = torch.nn.Linear(width, width), getattr(torch.nn.functional, gate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.up(self.norm(x)).chunk(2, dim=-1)
        mixed = self.gate(left) * right
        scores = (mixed @ mixed.transpose(-1, -2) / 4.0).softmax(dim=-1)
        return self.down(scores @ mixed).view(x.shape[0], -1) ** 2 + 1


def toys() -> Iterator[Entry]:
    for gate in ("silu", "gelu", "elu", "softplus"):
        for width in (8, 16):
            yield Entry("toys", f"{gate}_{width}", gate, {"width": width, "gate": gate}, 0, "nlp")


def build(entry: Entry) -> Built:
    def inputs(batch: int, _: int) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(0)
        return {"x": torch.randn(batch, 6, entry.settings["width"], generator=generator)}

    return Built(Block(entry.settings["width"], entry.settings["gate"]).eval(), inputs)


def main(root: Path) -> None:
    others.CATALOGS = {**others.CATALOGS, "toys": (toys, build)}
    print("begin", flush=True)
    quiet = lambda _: None  # noqa: E731
    harvest(catalog(["toys"]), root, jobs=2, report=quiet)
    print("decompose", flush=True)
    pipeline.decompose(root, report=quiet)
    print("vary", flush=True)
    pipeline.vary(root, Budget(dims=1), report=quiet)
    print("verify", flush=True)
    pipeline.check(root, count=2, report=quiet)
    print("publish", flush=True)
    pipeline.publish(root, root / "out" / "shards", root / "out", count=2, report=quiet)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
