"""The `passbench` command: a lazy group, so that a command pays only for the imports it needs."""

from __future__ import annotations

import importlib
import os
import sys

import click

from pass_bench.errors import PassBenchError

COMMANDS = {
    "dataset": "pass_bench.dataset.commands:dataset_command",
    "eval": "pass_bench.worker.commands:eval_command",
    "batch": "pass_bench.batch.commands:batch_command",
    "pack": "pass_bench.batch.submission_commands:pack_command",
    "verify": "pass_bench.batch.submission_commands:verify_command",
    "calibrate": "pass_bench.timing.commands:calibrate_command",
    "check": "pass_bench.guard.commands:check_command",
    "selftest": "pass_bench.guard.commands:selftest_command",
    "show": "pass_bench.fx.commands:show_command",
    "doctor": "pass_bench.worker.doctor:doctor_command",
    "score": "pass_bench.score.commands:score_command",
    "report": "pass_bench.report.commands:report_command",
    "merge": "pass_bench.report.commands:merge_command",
}


class LazyGroup(click.Group):
    """A click group that imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def passbench() -> None:
    """Measure compiler passes on PyTorch FX graphs."""


def run(command: click.Command, args: list[str] | None = None) -> int:
    """Run a click command; return the exit code: 0 done, 2 bad input or usage, 3 our own failure.

    Every error is one line; PASSNET_DEBUG=1 shows the traceback of one that nobody foresaw.
    """
    try:
        result = command.main(args=args, prog_name=command.name, standalone_mode=False)
    except PassBenchError as error:
        click.echo(f"{command.name}: {error}", err=True)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else command.name
        click.echo(f"{where}: {' '.join(error.format_message().split())} (see {where} --help)", err=True)
        return 2
    except click.Abort:
        click.echo(f"{command.name}: interrupted", err=True)
        return 3
    except OSError as error:
        click.echo(f"{command.name}: {error}", err=True)
        return 3
    except Exception as error:
        if os.environ.get("PASSNET_DEBUG"):
            raise
        words = " ".join(str(error).split())[:500]
        click.echo(f"{command.name}: internal error: {type(error).__name__}: {words}", err=True)
        return 3
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(passbench))
