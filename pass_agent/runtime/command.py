"""`passagent clean`: remove what dead runners left behind."""

from __future__ import annotations

from pathlib import Path

import click

from pass_agent.errors import BadInput
from pass_agent.runtime.containers import clean_containers, connect
from pass_agent.runtime.local import LocalRuntime


@click.command("clean")
@click.option("--traj-dir", type=Path, default=Path("trajectories/pass_agent"), show_default=True)
@click.option("--all", "everything", is_flag=True, help="Also containers of runners that still live.")
def clean_command(traj_dir: Path, everything: bool) -> int:
    """Remove processes, folders and containers whose runner is gone."""
    boxes = sum(
        LocalRuntime(folder).clean() for folder in sorted(traj_dir.glob("*/boxes")) if folder.is_dir()
    )
    click.echo(f"{boxes} local boxes removed")
    try:
        client = connect()
    except (BadInput, ImportError) as error:
        click.echo(f"no containers looked for: {error}")
        return 0
    click.echo(f"{clean_containers(client, everything=everything)} containers removed")
    return 0
