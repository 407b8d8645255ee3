"""The scenarios that are kept as text, played, and what their traces tell."""

from functools import cache
from pathlib import Path
from typing import Any

from covey.cli.models import MODELS
from covey.sim.run import run
from covey.sim.scenario import Scenario, parse
from covey.trace import MemorySink, Recorder
from tests.evs.history import History, histories, messages
from tests.evs.notation import told

FOLDER = Path(__file__).parents[1] / "scenarios"

Row = dict[str, Any]


def scenario(name: str) -> Scenario:
    """The scenario of a file, called like `evs/figure-6`."""
    return parse((FOLDER / f"{name}.txt").read_text())


@cache
def rows(name: str) -> tuple[Row, ...]:
    """All that was written when it was played."""
    sink = MemorySink()
    played = scenario(name)
    outcome = run(played, MODELS[played.model], Recorder(sink), "run")
    assert not outcome.failed, outcome.why
    return tuple(sink.rows)


def lines(name: str) -> dict[str, str]:
    """What each process went through, in the notation of `tests.evs.notation`."""
    return told([row for row in rows(name) if row["run"] == "run"])


def history(name: str) -> History:
    """The same as the judge sees it."""
    (found,) = histories([row for row in rows(name) if row["run"] == "run"], "evs")
    return found


def seen(name: str, process: str) -> list[str]:
    """What the filter let through at a process, a line a row."""
    return [_line(row) for row in rows(name) if row["run"] == "run.vs" and row["process"] == process]


def _line(row: Row) -> str:
    match row["event"]:
        case "config":
            what = f"{row['config']}: {' '.join(row['members'])}"
        case "send" | "deliver":
            what = " ".join(messages(row)) + f" in {row['config']}"
        case _:
            what = row.get("config") or ""
    return f"{row['incarnation']} {row['event']} {what}".strip()
