"""`covey demo`: watch processes agree on who is there."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from covey.cli.picture import Picture
from covey.cli.rows import INSTANT_S
from covey.cli.show import open_console, two_columns, views_table
from covey.cli.stage import Stage
from covey.cli.watch import Event, names, short
from covey.kernel.ids import ProcessId
from covey.trace import Row, read_checked

SITES = tuple("abcde")
BOUND_S = 22.0
"""For all acts together; then they are told to leave, which has its own bound."""
EYES_S = 1.4
"""In a terminal each act is left to be looked at for so long."""
POLL_S = 0.02
KINDS = ("start", "lead", "view", "fail", "halt", "stop", "pause", "resume", "cut", "mend")


class LateError(Exception):
    """An act did not come to its end."""


class Show:
    """Plays the acts, and draws what comes of them as it happens."""

    def __init__(self, stage: Stage, console: Console) -> None:
        self.stage = stage
        self.console = console
        self.picture = Picture(SITES, console.width)
        self.picture.used.update(KINDS)
        self._drawn = 0

    def play(self) -> None:
        """All of it; LateError when what should have come of an act does not."""
        killed, paused, lonely = "a", "c", "e"
        self._act("all start", lambda: self.stage.start(*SITES))
        self._act(f"{killed} is killed", lambda: self.stage.kill(killed), without=killed)
        self._act(f"{killed} starts again", lambda: self.stage.start(killed))
        self._act(f"{paused} is paused", lambda: self.stage.pause(paused), without=paused)
        self._act(f"{paused} goes on", lambda: self.stage.resume(paused))
        self._act(f"{lonely} is cut off", lambda: self.stage.cut_off(lonely), without=lonely)
        self._act(f"{lonely} is no longer cut off", lambda: self.stage.heal(lonely))
        self.stage.leave()
        self.draw(self.stage.events[self._drawn :])

    def _act(self, what: str, do: Callable[[], None], without: str = "") -> None:
        """Do that, and wait until all but one have agreed on a new view of just them."""
        sites = [name for name in SITES if name != without]
        last = max((rest.number for rest in self.stage.rests.values()), default=-1)
        do()
        while not self.stage.agree(sites, last):
            if self.stage.now > BOUND_S:
                raise LateError(f"{what}, and {' '.join(sites)} did not agree on that in time")
            self._watch()
        end = self.stage.now + (EYES_S if self.console.is_terminal else INSTANT_S)
        while self.stage.now < end:
            self._watch()

    def _watch(self) -> None:
        self.stage.wait(POLL_S)
        undrawn = self.stage.events[self._drawn :]
        if undrawn and self.stage.now - undrawn[0].at > INSTANT_S:
            self.draw(undrawn)

    def draw(self, events: Sequence[Event]) -> None:
        self._drawn += len(events)
        for line in self.picture.lines(events):
            self.console.print(line.text, soft_wrap=True)


def installed(rows: Iterable[Row]) -> list[Event]:
    """The views of a trace, as they would be drawn."""
    found = []
    for row in rows:
        if row.event == "config":
            columns = row.columns
            who = short(ProcessId(row.process, row.incarnation))
            found.append(Event(0.0, "view", row.process, who, columns["seq"], members=names(columns["members"])))
    return found


def disagreements(views: Iterable[Event]) -> list[str]:
    """What is wrong with views of which each site's are in the order in which it installed them."""
    first: dict[int | None, Event] = {}
    numbers: dict[str, list[int]] = {}
    wrong = []
    for view in views:
        other = first.setdefault(view.number, view)
        if view.who not in view.members:
            wrong.append(f"view {view.number}: {view.who} installed it, and is not in it")
        if view.members != other.members:
            saw = f"{view.who} saw {' '.join(view.members)}, and {other.who} saw {' '.join(other.members)}"
            wrong.append(f"view {view.number}: {saw}")
        numbers.setdefault(view.who, []).append(view.number or 0)
    for who, seen in numbers.items():
        wrong += [f"{who} went from view {one} to {other}" for one, other in pairwise(seen) if other != one + 1]
    return wrong


@click.command()
@click.pass_context
def demo(context: click.Context) -> None:
    """Watch five processes agree on who is there.

    They run on this machine, on the loopback network, sealed with a key made for the
    occasion. One is killed and started again, one is paused, one is cut off; it is drawn
    as it happens, in some 15 seconds. At the end stand the views that they have seen,
    read from the traces that they wrote.

    Exit status: 0; 1 when they did not agree, or not in time; 2 when they could not run.
    """
    console = open_console()
    before = {number: signal.signal(number, _terminate) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with tempfile.TemporaryDirectory(prefix="covey-demo-") as folder, Stage(Path(folder), SITES) as stage:
            failed = _show(stage, console)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failed:
        for line in failed:
            console.print(f"This run failed: {line}", style="bold red", soft_wrap=True)
        context.exit(1)
    console.print("\nNext: covey simulate --seeds 17 --show, a simulated run with random failures; covey --help")


def _show(stage: Stage, console: Console) -> list[str]:
    """Play, draw and tell; return what was wrong."""
    show = Show(stage, console)
    console.print("Five processes: one is killed and comes back, one is paused, one is cut off.", style="bold")
    console.print("A view is the set of sites that are there, and all agree on it. The time is in seconds.\n")
    for text in (*two_columns(list(show.picture.legend()), console.width), Text(), show.picture.names()):
        console.print(text, soft_wrap=True)
    try:
        show.play()
    except LateError as late:
        return [str(late)]
    console.print(show.picture.names(), soft_wrap=True)
    views = installed(read_checked(stage.trace))
    wrong = disagreements(views)
    if not wrong:
        seen = {(event.who, event.number): place for place, event in enumerate(stage.events)}
        views.sort(key=lambda view: seen.get((view.who, view.number), len(seen)))
        console.print("\nAll went through these views, in this order, none left out while they were there:\n")
        console.print(views_table(views))
    return wrong


def _terminate(number: int, frame: Any) -> None:
    sys.exit(128 + number)
