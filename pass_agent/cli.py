"""The `passagent` command."""

from __future__ import annotations

import importlib
import sys

import click

from pass_agent.errors import AgentError

COMMANDS = {
    "run": "pass_agent.agent.command:run_command",
    "show": "pass_agent.journal.commands:show_command",
    "replay": "pass_agent.journal.commands:replay_command",
    "export": "pass_agent.export.command:export_command",
    "clean": "pass_agent.runtime.command:clean_command",
    "serve-script": "pass_agent.model.command:serve_command",
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
def passagent() -> None:
    """Let a language model write compiler passes, and tell it the truth about them."""


def run(command: click.Command, args: list[str] | None = None, name: str | None = None) -> int:
    """Run a click command; return the exit code: 0 done, 2 bad input or usage, 3 our own failure."""
    name = name or command.name
    try:
        result = command.main(args=args, prog_name=name, standalone_mode=False)
    except AgentError as error:
        click.echo(f"{name}: {error}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo(f"{name}: interrupted", err=True)
        return 3
    except OSError as error:
        click.echo(f"{name}: {error}", err=True)
        return 3
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(passagent))


if __name__ == "__main__":
    main()
