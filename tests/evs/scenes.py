"""The scenarios that are kept as text, played, and what their traces tell."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from covey.cli.models import MODELS
from covey.sim.run import run
from covey.sim.scenario import Scenario, parse
from covey.sim.world import World
from covey.trace import MemorySink, Recorder
from tests.evs.history import History, histories, messages
from tests.evs.notation import told

FOLDER = Path(__file__).parents[1] / "scenarios"

RUN = "run"

Row = dict[str, Any]


def names(beginning: str) -> list[str]:
    """Of the scenarios that begin so."""
    return sorted(str(file.relative_to(FOLDER).with_suffix("")) for file in FOLDER.glob(f"{beginning}*.txt"))


def scenario(name: str) -> Scenario:
    """The scenario of a file, called like `evs/figure-6`."""
    return parse((FOLDER / f"{name}.txt").read_text())


@cache
def rows(name: str) -> tuple[Row, ...]:
    """All that is written when it is played."""
    sink = MemorySink()
    play(name, Recorder(sink))
    return tuple(sink.rows)


def play(name: str, recorder: Recorder | None = None, watch: Callable[[World], None] | None = None) -> None:
    """Play it, and see that it comes to its end."""
    played = scenario(name)
    outcome = run(played, MODELS[played.model], recorder, RUN, watch)
    assert not outcome.failed, outcome.why


def lines(name: str) -> dict[str, str]:
    """What each process went through, in the notation of `tests.evs.notation`."""
    return told([row for row in rows(name) if row["run"] == RUN])


def states(name: str, process: str) -> list[dict[str, int]]:
    """What a process says of its recoveries, in the counters of its `state` rows."""
    return [row["counters"] for row in rows(name) if row["event"] == "state" and row["process"] == process]


def history(name: str) -> History:
    """The same as the judge sees it."""
    (found,) = histories([row for row in rows(name) if row["run"] == RUN], "evs")
    return found


def seen(name: str, process: str) -> list[str]:
    """What the filter let through at a process, a line a row."""
    return [_line(row) for row in rows(name) if row["run"] == f"{RUN}.vs" and row["process"] == process]


def _line(row: Row) -> str:
    match row["event"]:
        case "config":
            what = f"{row['config']}: {' '.join(row['members'])}"
        case "send" | "deliver":
            what = " ".join(messages(row)) + f" in {row['config']}"
        case _:
            what = row.get("config") or ""
    return f"{row['incarnation']} {row['event']} {what}".strip()
