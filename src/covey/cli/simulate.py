"""`covey simulate`: play random scenarios, or one of your own, and keep their traces."""

import os
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from covey.cli.models import MODELS
from covey.cli.runs import Job, Output, Totals, cases_of, open_output, play_seeds
from covey.cli.show import open_console, play_watched, print_picture
from covey.cli.tables import print_table
from covey.kernel.errors import MisuseError
from covey.sim.generate import scenario_of
from covey.sim.model import SIZES, Model
from covey.sim.scenario import Scenario, parse
from covey.trace import MemorySink, Recorder

LISTED_MAX = 20
"""So many failed runs are told with their reasons."""


class Seeds(click.ParamType[range]):
    """`a:b`, or one number."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> range:
        first, colon, last = str(value).partition(":")
        if first.isdecimal() and (last.isdecimal() if colon else True):
            seeds = range(int(first), int(last) if colon else int(first) + 1)
            if seeds:
                return seeds
        self.fail(f"{value!r} is not a range of seeds; give a:b, from a up to but without b, or one number", param, ctx)


@click.command()
@click.option(
    "--model",
    type=click.Choice(list(MODELS)),
    default="isis85",
    show_default=True,
    help="The protocol, unless the scenario names it.",
)
@click.option("--seeds", type=Seeds(), metavar="A:B", help="Random scenarios: seeds A up to but without B, or just A.")
@click.option(
    "--scenario",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A scenario of your own, as text, instead of seeds.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Keep the trace of every run there."
)
@click.option(
    "--format",
    type=click.Choice(["parquet", "jsonl"]),
    help="Its encoding; parquet if pyarrow is installed, else jsonl, unless given.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=os.cpu_count,
    metavar="N",
    help="Processes; one a CPU unless given.",
)
@click.option(
    "--size",
    type=click.Choice(SIZES),
    default="usual",
    show_default=True,
    help="How much traffic random runs have, where the protocol has a choice.",
)
@click.option("--show", is_flag=True, help="Draw the run; there must be just one.")
@click.option("--stat", is_flag=True, help="Count the cases that the runs reached, where the protocol names some.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the totals.")
@click.pass_context
def simulate(
    context: click.Context,
    model: str,
    seeds: range | None,
    scenario: Path | None,
    out: Path | None,
    format: str | None,
    workers: int,
    size: str,
    show: bool,
    stat: bool,
    as_json: bool,
) -> None:
    """Play scenarios in a simulated world, and keep their traces.

    A seed makes a scenario: members, a network, crashes, cuts, pauses and more. It is
    the same run each time, and is called after it: seed-17. The protocol's invariants
    are checked all along.

    Exit status: 0 when all held; 1 when one broke, or a run that should have come to
    rest did not; 2 when it could not be run; 130 after Ctrl-C.

    \b
    Examples: look at one run; keep the traces of many; play a scenario of your own
      covey simulate --seeds 17 --show
      covey simulate --model isis85 --seeds 0:200 --out out
      covey simulate --scenario mine.txt --show
    """
    if (seeds is None) == (scenario is None):
        raise click.UsageError("say what to play: either --seeds A:B or --scenario FILE")
    if show and (as_json or (seeds is not None and len(seeds) > 1)):
        raise click.UsageError("--show draws one run: give one seed, and no --json")
    if format and out is None:
        raise click.UsageError("--format is that of the trace: give --out DIR, too")
    if size != "usual" and seeds is None:
        raise click.UsageError("--size is that of random runs: give --seeds A:B")
    if scenario is not None:
        name, one = scenario.stem, _read(scenario, model)
    else:
        assert seeds is not None
        name, one = f"seed-{seeds[0]}", scenario_of(MODELS[model], seeds[0], size)
    model = one.model or model
    if stat and MODELS[model].cases is None:
        raise click.UsageError(f"--stat counts cases, and {model} names none; leave it out")
    output = None if out is None else open_output(out, format)
    if seeds is not None and not show:
        totals = _play_seeds(Job(model, seeds, output, size, stat), workers)
    else:
        totals = _play_one(one, name, MODELS[model], output, show=show, stat=stat)
    _report(totals, model, output, stat, as_json)
    context.exit(1 if totals.failed else 0)


def _read(path: Path, model: str) -> Scenario:
    try:
        return parse(path.read_text(encoding="utf-8"), {**MODELS, "": MODELS[model]})
    except (MisuseError, UnicodeDecodeError) as error:
        raise MisuseError(f"{path}: {error}; docs/reference/scenario.md has all that can stand there") from None


def _play_seeds(job: Job, workers: int) -> Totals:
    console = Console(stderr=True)
    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("seeds", total=len(job.seeds))
        return play_seeds(job, workers, lambda done: bar.update(task, completed=done))


def _play_one(scenario: Scenario, name: str, model: Model, output: Output | None, *, show: bool, stat: bool) -> Totals:
    sink = MemorySink()
    shown = play_watched(scenario, model, Recorder(sink), name)
    if output is not None:
        output.write(name, sink.rows)
    if show:
        print_picture(shown, open_console())
    totals = Totals()
    totals.count(name, shown.outcome, cases_of(model, name, sink.rows) if stat else ())
    return totals


def _report(totals: Totals, model: str, output: Output | None, stat: bool, as_json: bool) -> None:
    """Say what became of the runs, to people or to programs."""
    if as_json:
        out = None if output is None else str(output.directory)
        numbers = {"model": model, **msgspec.to_builtins(totals), "out": out, "format": output and output.format}
        if not stat:
            del numbers["cases"]
        click.echo(msgspec.json.encode(numbers))
        return
    click.echo(_totals(totals, model))
    if stat:
        shares = [[case, f"{runs:,}", f"{runs / totals.runs:.0%}"] for case, runs in totals.cases.items()]
        print_table(["case", "runs", "share"], shares, texts=1)
    if output is not None:
        click.echo(f"the trace is in {output.directory}; for a look: covey trace stat {output.directory}")
    if not totals.failed:
        click.echo("no invariant broke")
        return
    for name, why in list(totals.failed.items())[:LISTED_MAX]:
        click.secho(f"{name}: {why}", fg="red")
    click.echo(f"{len(totals.failed)} failed: {' '.join(totals.failed)}")


def _totals(totals: Totals, model: str) -> str:
    runs = "1 run" if totals.runs == 1 else f"{totals.runs:,} runs"
    text = f"{runs} of {model}: {totals.packets:,} packets in {totals.virtual_seconds:,.0f} simulated seconds, "
    text += f"{totals.views:,} views"
    if totals.runs > 1:
        text += f"; {totals.with_more_than_three_views / totals.runs:.0%} of the runs have more than three"
    return text
