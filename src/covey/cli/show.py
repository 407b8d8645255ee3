"""Play a scenario and show it: its picture, what the marks mean, and the views that came of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from covey.cli.picture import Line, Picture
from covey.cli.watch import Event, Watch
from covey.sim.model import Model
from covey.sim.run import Outcome, run
from covey.sim.scenario import Scenario
from covey.trace import Recorder

WIDTH = 100
"""Of what is not printed to a terminal."""


class Shown(NamedTuple):
    """A run that was watched."""

    scenario: Scenario
    outcome: Outcome
    events: list[Event]


def play_watched(scenario: Scenario, model: Model, recorder: Recorder | None = None, name: str = "run") -> Shown:
    """Play it, and keep what can be seen of it."""
    watch = Watch(scenario)
    outcome = run(scenario, model, recorder, name, watch.attach)
    watch.finish(outcome)
    return Shown(scenario, outcome, watch.events)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # and the command ends as it does with any other output


def open_console() -> Console:
    """Colours in a terminal; plain lines of a fixed width anywhere else."""
    console = _Console(highlight=False)
    return console if console.is_terminal else _Console(highlight=False, width=WIDTH)


def print_picture(
    shown: Shown,
    console: Console,
    *,
    legend_first: bool = False,
    wait: Callable[[Line], None] = lambda line: None,
) -> None:
    """Print it line by line, each after `wait`."""
    picture = Picture(shown.scenario.members, console.width)
    lines = list(picture.lines(shown.events))
    legend = [*two_columns(list(picture.legend()), console.width), Text()]
    for text in (*(legend if legend_first else ()), picture.names()):
        console.print(text, soft_wrap=True)
    for line in lines:
        wait(line)
        console.print(line.text, soft_wrap=True)
    for text in (picture.names(), Text(), *(() if legend_first else legend)):
        console.print(text, soft_wrap=True)


def two_columns(entries: Sequence[Text], width: int) -> Iterator[Text]:
    """The entries side by side, where there is room for two."""
    height = (len(entries) + 1) // 2
    left, right = entries[:height], entries[height:]
    column = max(map(len, left)) + 4
    if column + max(map(len, right), default=0) > width:
        yield from entries
        return
    for place, entry in enumerate(left):
        line = entry.copy()
        if place < len(right):
            line.pad_right(column - len(entry))
            line.append_text(right[place])
        yield line


def views_table(events: Iterable[Event]) -> Table:
    """The sequence of views: number, members, who led it and who installed it."""
    views: dict[int | None, list[Event]] = {}
    for event in events:
        if event.kind == "view":
            views.setdefault(event.number, []).append(event)
    table = Table("view", "members", "led by", "installed by", box=SIMPLE_HEAD, show_edge=False)
    for number, installed in sorted(views.items(), key=lambda item: item[0] or 0):
        members = installed[0].members
        who = sorted(event.who for event in installed)
        everybody = "all of them" if set(who) == set(members) else " ".join(who)
        table.add_row(str(number), " ".join(members), installed[0].who, everybody)
    return table
