"""`covey verify`: judge a trace by the formal properties of its model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from covey.cli.tables import print_table
from covey.kernel.errors import WorldError

if TYPE_CHECKING:
    from covey.verify.check import Verdicts

WITNESSES_SHOWN = 3
"""Of each property that is violated; `--json` has them all."""


@click.command()
@click.argument("trace", type=click.Path(path_type=Path, exists=True))
@click.option("--model", "models", multiple=True, metavar="MODEL", help="Judge only runs of this model: evs or vs.")
@click.option("--property", "properties", multiple=True, metavar="ID", help="Judge only this property, such as EVS-4.")
@click.option(
    "--json", "to", metavar="FILE", help="Write the verdicts as JSON into a file, or with - instead of the table."
)
@click.pass_context
def verify(
    context: click.Context, trace: Path, models: tuple[str, ...], properties: tuple[str, ...], to: str | None
) -> None:
    """Judge a trace by the formal properties of its models.

    Spark does it, on this machine: a Java is needed and found, or comes with
    pip install "covey[spark]". The whole trace is read and checked first: nothing is
    concluded from one that cannot be trusted.

    Exit status: 0 when every property that applies holds; 1 when one is violated; 2 when
    the trace cannot be used.

    \b
    Examples: judge what a simulation wrote; one property of it; for a program
      covey verify out
      covey verify out --property EVS-4
      covey verify out --json verdicts.json
    """
    verdicts = _judge(trace, models, properties)
    if to == "-":
        click.echo(msgspec.json.encode(verdicts))
    else:
        _report(verdicts)
    if to not in (None, "-"):
        _write(Path(to), verdicts)
    context.exit(1 if verdicts.failing else 0)


def _judge(trace: Path, models: Sequence[str], properties: Sequence[str]) -> "Verdicts":
    """Judge a trace; what is wrong with it, or with the question, is found before Spark starts."""
    try:
        from covey.verify.bronze import read_trace
        from covey.verify.check import check, refuse_unknown
        from covey.verify.session import open_session
    except ImportError:
        raise WorldError('covey verify needs PySpark, which is not installed: pip install "covey[spark]"') from None
    refuse_unknown(models, properties)
    rows = read_trace(trace)
    return check(open_session().createDataFrame(rows), models, properties)


def _write(path: Path, verdicts: "Verdicts") -> None:
    try:
        path.write_bytes(msgspec.json.encode(verdicts) + b"\n")
    except OSError as error:
        raise WorldError(f"{path}: cannot write the verdicts: {error.strerror}") from error


def _report(verdicts: "Verdicts") -> None:
    """Print a table for people, and the first witnesses."""
    judged = {name: verdict for name, verdict in verdicts.properties.items() if verdict.status != "skipped"}
    rows = [[name, each.status, f"{each.checked:,}", f"{each.violations:,}"] for name, each in judged.items()]
    print_table(["property", "verdict", "checked", "violations"], rows, texts=2)
    for name in verdicts.properties.keys() - judged.keys():
        click.secho(f"{name} skipped: {verdicts.properties[name].why}", fg="yellow")
    for name, verdict in verdicts.properties.items():
        for witness in (verdict.witnesses or [])[:WITNESSES_SHOWN]:
            click.secho(f"{name} in {witness.run}", fg="red")
            click.echo(f"  {witness.why}")
            click.echo(f"  events: {', '.join(f'{process} {index}' for process, index in witness.events)}")
    what = f"{verdicts.events:,} events in {_runs(verdicts.runs)}"
    if verdicts.failing:
        click.secho(f"{what}; a property is violated in {_runs(len(verdicts.failing))}", fg="red")
    else:
        click.secho(f"{what}: every property that applies holds", fg="green")


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count:,} runs"
