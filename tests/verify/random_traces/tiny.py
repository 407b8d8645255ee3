"""What random tiny traces are made with: odd names, a pen for each process, and mutations."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tests.verify.random_traces.draw import NAMES, Draw
from tests.verify.random_traces.mutations import Mutation, is_beside, mutated
from tests.verify.runs import in_runs

Row = dict[str, Any]
T = TypeVar("T")

WHOLE = ("start", "fail", "stop")
"""What is written down of a process as a whole."""


def odd_names(draw: Draw, count: int) -> list[str]:
    """Different names of processes, sorted."""
    return sorted(draw.some_of(NAMES, count))


def part_of(draw: Draw, choices: Sequence[T], share: float = 0.5) -> list[T]:
    """Some of them, at least one, in their order."""
    return [each for each in choices if draw.is_so(share)] or [draw.one_of(choices)]


class Pen:
    """What one process writes down."""

    def __init__(self, process: str, group: str) -> None:
        self.process, self.group = process, group
        self.incarnation = 1
        self.rows: list[Row] = []

    @property
    def identity(self) -> str:
        return f"{self.process}/{self.incarnation}"

    def write(self, event: str, **columns: Any) -> None:
        group = "" if event in WHOLE else self.group
        common = {"run": "r", "process": self.process, "incarnation": self.incarnation, "index": len(self.rows)}
        self.rows.append({**common, "time_ns": 0, "group": group, "event": event, **columns})


def trace_of(model: str, pens: Iterable[Pen], complete: bool, healed: bool, **columns: Any) -> list[Row]:
    """The header and the rows."""
    header = {"run": "", "process": "", "incarnation": 1, "index": 0, "time_ns": 0, "group": "", "event": "run"}
    header |= {"model": model, "complete": complete, "healed": healed, **columns}
    return [header, *(row for pen in pens for row in pen.rows)]


def finished(draw: Draw, rows: list[Row], name: str, is_mutated: bool, aimed: Sequence[Mutation] = ()) -> list[Row]:
    """The trace as it is given out, in half of the cases with rows for many messages."""
    for row in rows:
        row["run"] = name
    for _ in range(1 + draw.below(3) if is_mutated else 0):
        rows = mutated(draw, rows, [*EVEN, *aimed, *aimed])
    return in_runs(rows) if draw.is_so(0.5) else rows


# ---- mutations that find what is rare as often as what is frequent -----------------------------


def drop_one_of_a_kind(draw: Draw, rows: list[Row]) -> None:
    del rows[place(draw, rows)]


def repeat_one_of_a_kind(draw: Draw, rows: list[Row]) -> None:
    repeated = place(draw, rows)
    rows.insert(repeated, dict(rows[repeated]))


def swap_with_the_next(draw: Draw, rows: list[Row]) -> None:
    """Of its incarnation."""
    one = place(draw, rows)
    if one + 1 < len(rows) and is_beside(rows[one], rows[one + 1]):
        rows[one], rows[one + 1] = rows[one + 1], rows[one]


def place(draw: Draw, rows: list[Row]) -> int:
    """That of some row: first the kind of event is drawn."""
    kind = draw.one_of(sorted({row["event"] for row in rows}))
    return draw.one_of([place for place, row in enumerate(rows) if row["event"] == kind])


def change_a_column(draw: Draw, rows: list[Row]) -> None:
    """A number by one or two, anything to what some other row says there: first the column is drawn."""
    names = sorted({name for row in rows for name in row.keys() - KEPT})
    if names:
        name = draw.one_of(names)
        having = [row for row in rows if name in row]
        row = draw.one_of(having)
        row[name] = another(draw, row[name], draw.one_of(having)[name])


KEPT = {"run", "process", "incarnation", "index", "time_ns", "group", "event", "master", "op"}


def another(draw: Draw, value: Any, other: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int) and draw.is_so(0.5):
        return max(0, value + draw.one_of([-2, -1, 1, 2]))
    if isinstance(value, dict):
        name = draw.one_of(sorted(value))
        return {**value, name: max(0, value[name] + draw.one_of([-2, -1, 1, 2]))}
    if isinstance(value, list) and len(value) > 1 and draw.is_so(0.5):
        gone = draw.one_of(value)
        return [each for each in value if each != gone]
    return other


def turn_primary(draw: Draw, rows: list[Row]) -> None:
    """All installations of one configuration say of it what they did not say: that it is primary, or that it is not."""
    if installed := [row for row in rows if "primary" in row]:
        config, is_primary = draw.one_of([(row["config"], row["primary"]) for row in installed])
        for row in installed:
            if row["config"] == config:
                row["primary"] = not is_primary


EVEN: list[Mutation] = [
    drop_one_of_a_kind,
    repeat_one_of_a_kind,
    swap_with_the_next,
    change_a_column,
    change_a_column,
    change_a_column,
]
