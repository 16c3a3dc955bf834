"""`passagent serve-script`: a local endpoint that serves a script."""

from __future__ import annotations

import threading
from pathlib import Path

import click

from pass_agent.model.script import read_script
from pass_agent.model.server import serving


@click.command("serve-script")
@click.argument("script", type=Path)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any free port.")
def serve_command(script: Path, port: int) -> int:
    """Serve SCRIPT over the chat-completions protocol on 127.0.0.1 until interrupted."""
    with serving(read_script(script), port) as server:
        click.echo(server.url)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0
