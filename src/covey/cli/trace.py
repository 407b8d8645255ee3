"""`covey trace`: look at a trace, convert it, and add what its members could not know."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from covey.cli.tables import print_table
from covey.kernel.errors import WorldError
from covey.kernel.ids import MessageId
from covey.trace.amend import Seal, add_fail, seal_trace
from covey.trace.closing import Closed
from covey.trace.convert import close_streams, convert_trace, trim
from covey.trace.jsonl import encode_lines
from covey.trace.reader import read_checked, read_trace
from covey.trace.row import Row
from covey.trace.stat import TOTALS, trace_stat
from covey.trace.story import Step, story_of_message, story_of_view, tell

TRACE = click.argument("trace", metavar="TRACE", type=click.Path(path_type=Path))
FORMAT = click.option(
    "--format",
    type=click.Choice(["jsonl", "parquet"]),
    default="parquet",
    show_default=True,
    help="The encoding to write.",
)


class _Commands(click.Group):
    """What the disk refuses is told as any other error."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WorldError(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error


@click.group(cls=_Commands)
def trace() -> None:
    """Look at a trace, convert it, and add what its members could not know.

    A trace is a directory of *.jsonl and *.parquet files, written by every member
    of a system about itself.

    Exit status: 0 when done; 1 when story finds nothing, or convert leaves a
    stream open that is still being written; 2 when the trace cannot be used.
    """


@trace.command()
@TRACE
@click.option("--run", "runs", multiple=True, help="Only this run; may be given several times.")
@click.option("--process", "processes", multiple=True, help="Only this process; may be given several times.")
@click.option("--event", "events", multiple=True, help="Only this event; may be given several times.")
@click.option("--unclosed", is_flag=True, help="Read streams that are still being written, too.")
def cat(
    trace: Path, runs: tuple[str, ...], processes: tuple[str, ...], events: tuple[str, ...], unclosed: bool
) -> None:
    """Print the rows of a trace as JSON Lines.

    \b
    Example: what p and q delivered
      covey trace cat out --process p --process q --event deliver
    """

    def wanted(row: Row) -> bool:
        asked = ((runs, row.run), (processes, row.process), (events, row.event))
        return all(not names or name in names for names, name in asked)

    output = sys.stdout.buffer
    try:
        output.writelines(encode_lines(row.columns for row in read_trace(trace, unclosed) if wanted(row)))
    finally:
        output.flush()


@trace.command()
@TRACE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with every run in full.")
@click.option(
    "--show", type=click.IntRange(min=0), default=20, show_default=True, help="How many runs to list; 0 lists them all."
)
def stat(trace: Path, as_json: bool, show: int) -> None:
    """Check a trace and count what it holds.

    Messages are counted, not rows: a row that stands for a hundred deliveries is a
    hundred events.

    \b
    Example:
      covey trace stat out
    """
    numbers = trace_stat(read_checked(trace))
    if as_json:
        click.echo(msgspec.json.encode(numbers))
        return
    runs = numbers["runs"]
    shown = list(runs.items())[: show or None]
    rows = [[_printable(run), " ".join(each["models"]), _state(each), *_totals(each)] for run, each in shown]
    if len(runs) > 1:
        rows.append([f"{len(runs)} runs", "", "", *_totals(numbers)])
    print_table(["run", "models", "state", *TOTALS], rows, texts=3)
    if len(shown) < len(runs):
        click.echo(f"not listed: {_number(len(runs) - len(shown), 'run')}; --show 0 lists them all")


@trace.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path), required=False)
@FORMAT
@click.option(
    "--trim",
    "trimming",
    is_flag=True,
    help="Cut off the unfinished last line that a killed process left in a *.jsonl file.",
)
@click.pass_context
def convert(context: click.Context, source: Path, target: Path | None, format: str, trimming: bool) -> None:
    """Convert a trace, or close what a crash left open.

    With TARGET, all files of SOURCE are written again below it; SOURCE stays as it is.

    Without TARGET, every stream in SOURCE is closed where it is: a member that was
    killed leaves one, NAME.rows. A stream whose process still runs is left alone,
    and the exit status is then 1.

    \b
    Examples: after a crash; and to read by eye
      covey trace convert out
      covey trace convert out readable --format jsonl
    """
    if trimming and target is not None:
        raise click.UsageError("--trim changes SOURCE: run it without TARGET, then convert")
    for file, size in trim(source) if trimming else ():
        click.echo(f"{file}: cut off {size} bytes of an unfinished row")
    if target is not None:
        for done in convert_trace(source, target, format):
            click.echo(f"{done.source} -> {done.target}: {_number(done.rows, 'row')}{_torn(done.torn_bytes)}")
        return
    done_with = [_report(closed) for closed in close_streams(source, format)]
    if not done_with and not trimming:
        click.echo(f"{source}: no stream to close")
    context.exit(int(not all(done_with)))


@trace.command()
@TRACE
@click.option("--complete/--no-complete", default=None, help="The runs came to rest: all that can be delivered is.")
@click.option("--healed/--no-healed", default=None, help="At rest, all that is up can reach each other.")
@click.option("--run", help="Seal only this run.")
def seal(trace: Path, complete: bool | None, healed: bool | None, run: str | None) -> None:
    """Say of the runs of a trace that they came to rest.

    Only then is judged whether everything happened that should have. Members cannot
    know it; whoever stopped them can. The headers are rewritten, each file as a whole.

    \b
    Example: traffic was drained, the network whole, then all members were stopped
      covey trace seal out --complete --healed
    """
    for file, headers in seal_trace(trace, Seal(complete, healed, run)):
        click.echo(f"{file}: {_number(headers, 'header')} sealed")


@trace.command()
@TRACE
@click.option("--run", required=True, help="The run it belonged to.")
@click.option("--process", required=True, help="Its name.")
@click.option("--incarnation", required=True, type=click.IntRange(min=1), help="Which of its lives ended.")
@click.option("--config", help="The configuration it crashed in; the last one it installed if not given.")
def fail(trace: Path, run: str, process: str, incarnation: int, config: str | None) -> None:
    """Add that a process was killed, which it could not write itself.

    The row goes into a new file of the trace. It is refused where that incarnation
    has failed or stopped already.

    \b
    Example: after kill -9
      covey trace fail out --run r --process p --incarnation 1
    """
    click.echo(f"{add_fail(trace, run, process, incarnation, config)}: {process}/{incarnation} failed")


@trace.command()
@TRACE
@click.option("--message", help="Tell what this message went through: process/incarnation/number.")
@click.option("--view", help="Tell what this view or configuration went through.")
@click.option("--run", help="Only in this run.")
@click.option("--json", "as_json", is_flag=True, help="Print the rows as JSON Lines, each with since_ns.")
@click.pass_context
def story(
    context: click.Context, trace: Path, message: str | None, view: str | None, run: str | None, as_json: bool
) -> None:
    """Tell what one message, or one view, went through.

    One line for each event: when (milliseconds since the first, by local clocks), who,
    and what. The exit status is 1 when the trace does not mention it.

    \b
    Examples:
      covey trace story out --message p/1/3
      covey trace story out --view v2
    """
    if (message is None) == (view is None):
        raise click.UsageError("give either --message or --view")
    rows = (row for row in read_trace(trace) if run in (None, row.run))
    steps = list(
        story_of_view(rows, view) if view is not None else story_of_message(rows, MessageId.parse(message or ""))
    )
    if as_json:
        click.echo(b"".join(msgspec.json.encode(step.data()) + b"\n" for step in steps), nl=False)
    else:
        _print_story(steps)
    if not steps:
        click.echo(f"{trace}: nothing about {message or view}", err=True)
        context.exit(1)


def _print_story(steps: list[Step]) -> None:
    """A heading for each run where there are several."""
    several = len({step.run for step in steps}) > 1
    width = max((len(_printable(step.who)) for step in steps), default=0)
    run = None
    for step in steps:
        if several and step.run != run:
            click.secho(f"run {_printable(step.run)}", bold=True)
        run = step.run
        when = click.style(f"{step.since_ns / 1e6:+12.3f} ms", dim=True)
        click.echo(f"{when}  {click.style(_printable(step.who).ljust(width), fg='cyan')}  {_printable(tell(step))}")


def _printable(text: str) -> str:
    """A name may hold any character; a line of output stays one line."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _report(closed: Closed | Path) -> bool:
    """Say what became of a stream; false if it had to be left open."""
    if isinstance(closed, Path):
        click.echo(f"{closed}: still being written, left alone")
        return False
    target = f"-> {closed.target}: {_number(closed.rows, 'row')}" if closed.target else "removed: it has no rows"
    click.echo(f"{closed.source} {target}{_torn(closed.torn_bytes)}")
    if closed.without_arrow:
        click.echo('pyarrow is not installed, so this is JSON Lines; for Parquet: pip install "covey[trace]"')
    return True


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _torn(size: int) -> str:
    return f"; {size} bytes of an unfinished batch left out, which nobody has seen" if size else ""


def _state(summary: dict[str, Any]) -> str:
    return " ".join(name for name in ("complete", "healed") if summary[name])


def _totals(summary: dict[str, Any]) -> list[str]:
    return [f"{summary[name]:,}" for name in TOTALS]
