"""`covey key`: make the key of a group."""

from pathlib import Path

import click

from covey.net.keys import new_key_file


@click.group()
def key() -> None:
    """Make the key that the members of a group share.

    Whoever has it is a member. How to hand it out and to change it is in
    docs/how-to/keys.md.

    Exit status: 0 when done; 2 when the file could not be written.
    """


@key.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a new key into FILE, which only you can read.

    A file that is there already is left as it is.

    Exit status: 0; 2 when it could not be written.

    \b
    Example:
      covey key new group.key
    """
    click.echo(f"{file}: key {new_key_file(file).id.hex()}")
