"""`passbench calibrate`."""

from __future__ import annotations

from typing import Literal

import click

from pass_bench.errors import BadInput


@click.command("calibrate")
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
def calibrate_command(device: str) -> None:
    """Measure this machine: launch floor, copy bandwidth, spread of identical code.

    The result is kept in the user's cache folder and stands in the environment record of later evaluations.
    """
    import torch

    from pass_bench.timing.calibrate import calibrate, write_calibration
    from pass_bench.worker.environment import device_name
    from pass_bench.worker.lock import DeviceLock

    if device == "cuda" and not torch.cuda.is_available():
        raise BadInput("--device cuda: PyTorch finds no CUDA device", expected="cpu or auto here")
    chosen: Literal["cpu", "cuda"] = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    with DeviceLock(chosen):
        measured = calibrate(chosen)
    name = device_name(chosen)
    path = write_calibration(chosen, name, measured)
    click.echo(f"{name} ({chosen})")
    width = max(len(key) for key in measured)
    for key, value in measured.items():
        click.echo(f"  {key:<{width}}  {value:g}")
    click.echo(f"kept in {path}")
