"""Make dataset files from example samples and from lists of samples."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from pass_agent.errors import BadInput
from pass_agent.records import Task

DEMO = "passbench_demo_dataset.jsonl"


def write_datasets(root: Path, out: Path, demo_tasks: int, docker_image: str) -> list[tuple[Path, int]]:
    """Write the demo dataset and one dataset per `sample_lists/eval/*.txt`; returns files and task counts.

    Paths in them are relative to `root`. Demo tasks are taken in turn from all models, so that they differ.
    Raises BadInput where there is no example sample.
    """
    entries = sorted(path.parent for path in root.glob("samples/fusible_subgraphs/*/*/entry.sh"))
    if not entries:
        raise BadInput("no example sample", path=root / "samples" / "fusible_subgraphs")
    chosen = spread([entry.relative_to(root).as_posix() for entry in entries], demo_tasks)
    written = [(out / DEMO, _write(out / DEMO, chosen, docker_image))]
    for listing in sorted(root.glob("sample_lists/eval/*.txt")):
        paths = [line.strip() for line in listing.read_text(encoding="utf-8").splitlines() if line.strip()]
        target = out / f"{listing.stem}_dataset.jsonl"
        written.append((target, _write(target, paths, docker_image)))
    return written


def spread(paths: list[str], count: int) -> list[str]:
    """Up to `count` paths, one model after the other, in the order of the list within each model."""
    models: dict[str, list[str]] = {}
    for path in paths:
        models.setdefault(path.rsplit("/", 1)[0], []).append(path)
    chosen: list[str] = []
    while models and len(chosen) < count:
        for model in list(models):
            if len(chosen) < count:
                chosen.append(models[model].pop(0))
            if not models[model]:
                del models[model]
    return chosen


def instance_id(path: str) -> str:
    """A task's id from its sample's path: everything below the category, joined."""
    parts = [part for part in path.split("/") if part not in ("samples", "")]
    return "__".join(parts[1:] if len(parts) > 1 else parts)


def _write(path: Path, samples: Iterable[str], docker_image: str) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        Task(sample_dir=sample, instance_id=instance_id(sample), docker_image=docker_image).model_dump()
        for sample in samples
    ]
    order = ("swe_type", "sample_dir", "repo_name", "docker_image", "instance_id")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    text = "".join(json.dumps({name: line[name] for name in order}) + "\n" for line in lines)
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return len(lines)
