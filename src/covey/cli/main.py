"""The command `covey`: finds the subcommands, and turns every ending into an exit status."""

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click

from covey import __version__
from covey.kernel.errors import CoveyError

COMMANDS = {
    "demo": ("covey.cli.demo", "Watch five processes agree on who is there."),
    "key": ("covey.cli.key", "Make the key that the members of a group share."),
    "simulate": ("covey.cli.simulate", "Play scenarios in a simulated world, and keep their traces."),
    "trace": ("covey.cli.trace", "Look at a trace, convert it, and add what its members could not know."),
    "verify": ("covey.cli.verify", "Judge a trace by the formal properties of its models."),
}
"""The module of each command, and what it is for: a command is imported when it is used, not to list it."""

UNUSABLE, BUG, INTERRUPTED, BROKEN_PIPE = 2, 70, 130, 141
"""Exit statuses; 0 and 1 are the commands'."""


class Commands(click.Group):
    """Imports a command once it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.command(cls=Commands)
@click.version_option(__version__, prog_name="covey")
def cli() -> None:
    """Process groups with virtual synchrony: processes that act as one.

    \b
    Begin by watching processes agree, then look at a simulated run, then at many:
      covey demo
      covey simulate --seeds 17 --show
      covey simulate --seeds 0:200 --out out
      covey trace stat out

    Every command explains itself: covey simulate --help. To learn by doing, read
    docs/tutorial.md.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `covey` with these arguments, those of the program if none are given; return the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a glyph shows something else
    try:
        status = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer has nowhere to go, also when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except CoveyError as error:
        click.echo(f"covey: {error}", err=True)
        return UNUSABLE
    except Exception:
        traceback.print_exc()
        click.echo(
            "covey: this is a bug. Please report it, with the lines above and the command that you gave.", err=True
        )
        return BUG
    return status


def _run(arguments: list[str]) -> int:
    try:
        with cli.make_context("covey", arguments) as context:
            cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0
