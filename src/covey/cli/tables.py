"""Tables, for people and for programs."""

from collections.abc import Iterable

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(heads: list[str], rows: Iterable[list[str]], texts: int) -> None:
    """Print a table in a terminal, aligned lines anywhere else; numbers follow on so many columns of text."""
    console = Console()
    if console.is_terminal:
        table = Table(*heads)
        for column in table.columns[texts:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [
            cell.ljust(w) if at < texts else cell.rjust(w)
            for at, (cell, w) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())
