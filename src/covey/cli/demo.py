"""`covey demo`: watch one simulated run."""

from time import sleep

import click

from covey.cli.models import MODELS
from covey.cli.picture import Line
from covey.cli.show import open_console, play_watched, print_picture, views_table
from covey.isis.scenarios import DEMO
from covey.sim.scenario import parse

SECONDS = 17.0
"""For so long the run is drawn, for people to follow."""


class Pace:
    """Waits before each line in proportion to the simulated time that has passed."""

    def __init__(self, seconds: float, simulated: float) -> None:
        self.scale = seconds / simulated
        self.last = 0.0

    def wait(self, line: Line) -> None:
        sleep((line.at - self.last) * self.scale)
        self.last = line.at


@click.command()
@click.option("--fast", is_flag=True, help="Draw it at once; it is also drawn at once when it is not for a terminal.")
@click.pass_context
def demo(context: click.Context, fast: bool) -> None:
    """Watch one simulated run.

    Five sites agree on who is there, again and again, while they crash, come back, are
    cut apart and meet again. It is drawn as it goes, in some 17 seconds; at the end
    stand the views that all of them have seen. Everything is simulated, and the same
    each time.

    Exit status: 0; 1 should an invariant of the protocol break.
    """
    console = open_console()
    shown = play_watched(parse(DEMO), MODELS["isis85"])
    simulated = shown.outcome.seconds
    pace = Pace(SECONDS if console.is_terminal and not fast else 0.0, simulated)
    console.print(DEMO.splitlines()[0].lstrip("# "), style="bold")
    console.print(f"A view is the set of sites that are there, and all agree on it. {simulated:g} simulated seconds:\n")
    print_picture(shown, console, legend_first=True, wait=pace.wait)
    if shown.outcome.failed:
        console.print(f"This run failed: {shown.outcome.why}", style="bold red", soft_wrap=True)
        context.exit(1)
    console.print("All went through these views, in this order, none left out while they were there:\n")
    console.print(views_table(shown.events))
    console.print("\nNext: covey simulate --seeds 17 --show, a run with random failures; covey --help")
