"""Write the agent's dataset files: a demo of up to 10 example samples, and one file per evaluation list.

python examples/create_passbench_dataset.py [--root REPOSITORY] [--out DIRECTORY]
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pass_agent.agent.dataset_files import write_datasets
from pass_agent.cli import run

REPOSITORY = Path(__file__).resolve().parents[2]


@click.command("create_passbench_dataset", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--root", type=Path, default=REPOSITORY, help="The repository with samples/ and sample_lists/.")
@click.option("--out", type=Path, default=REPOSITORY / "pass_agent" / "datasets", help="Where to write.")
@click.option("--demo-tasks", type=click.IntRange(1), default=10, show_default=True)
@click.option("--docker-image", default="passnet:latest", show_default=True)
def create(root: Path, out: Path, demo_tasks: int, docker_image: str) -> int:
    """Write the files and say what is in them."""
    for path, count in write_datasets(root, out, demo_tasks, docker_image):
        click.echo(f"{path}: {count} tasks")
    return 0


if __name__ == "__main__":
    sys.exit(run(create))
