"""What random tiny traces are made with: odd names, a pen for each process, and what spoils a trace."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tests.verify.random_traces.draw import NAMES, Draw
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


def finished(draw: Draw, rows: list[Row], name: str, is_spoiled: bool) -> list[Row]:
    """The trace as it is given out: with what was done to it in a column `mutation` of the header, and in half of the
    cases with rows for many messages."""
    ways = [spoil(draw, rows) for _ in range(1 + draw.below(4) if is_spoiled else 0)]
    if any(ways):
        rows[0]["mutation"] = ", ".join(filter(None, ways))
    for row in rows:
        row["run"] = name
    return in_runs(rows) if draw.is_so(0.5) else rows


# ---- what spoils a trace -----------------------------------------------------------------------

CHANGED = (
    "message",
    "config",
    "ordinal",
    "number",
    "position",
    "seq",
    "members",
    "primary",
    "previous",
    "kind",
    "service",
    "result",
    "turn",
    "digest",
    "counters",
    "request",
    "body",
    "client",
    "recovered",
)


def spoil(draw: Draw, rows: list[Row]) -> str:
    """Change one thing, and say which; what the strict reader asks for remains."""
    if len(rows) < 3:
        return ""
    way = draw.one_of([_drop, _repeat, _swap, _change, _change, _change])
    way(draw, rows)
    _number_again(rows)
    return way.__name__.strip("_")


def _drop(draw: Draw, rows: list[Row]) -> None:
    rows.pop(_place(draw, rows))


def _repeat(draw: Draw, rows: list[Row]) -> None:
    place = _place(draw, rows)
    rows.insert(place, dict(rows[place]))


def _place(draw: Draw, rows: list[Row]) -> int:
    """Where some row is; each kind of event comes up as often as any other."""
    kind = draw.one_of(sorted({row["event"] for row in rows[1:]}))
    return draw.one_of([place for place, row in enumerate(rows) if row["event"] == kind])


def _swap(draw: Draw, rows: list[Row]) -> None:
    """Two rows of one incarnation, mostly neighbours."""
    one = _place(draw, rows)
    other = one + 1 + draw.below(1 if draw.is_so(0.6) else 4)
    if other < len(rows) and (rows[one]["process"], rows[one]["incarnation"]) == (
        rows[other]["process"],
        rows[other]["incarnation"],
    ):
        rows[one], rows[other] = rows[other], rows[one]


def _change(draw: Draw, rows: list[Row]) -> None:
    """A column of some row: a number by one or two, anything to what some other row says there."""
    name = draw.one_of(sorted({name for row in rows[1:] for name in row.keys() & set(CHANGED)} or {"event"}))
    having = [row for row in rows[1:] if name in row]
    if name == "event":
        return
    row, other = draw.one_of(having), draw.one_of(having)
    if name == "counters":
        counter = draw.one_of(sorted(row[name]))
        row[name] = {**row[name], counter: max(0, row[name][counter] + draw.one_of([-2, -1, 1, 2]))}
    elif isinstance(row[name], bool):
        row[name] = not row[name]
    elif isinstance(row[name], int) and draw.is_so(0.5):
        row[name] = max(0, row[name] + draw.one_of([-2, -1, 1, 2]))
    elif name == "members" and draw.is_so(0.5) and len(row[name]) > 1:
        row[name] = [member for member in row[name] if member != draw.one_of(row[name])]
    else:
        row[name] = other[name]


def _number_again(rows: list[Row]) -> None:
    index: dict[str, int] = {}
    for row in rows[1:]:
        row["index"] = index.get(row["process"], -1) + 1
        index[row["process"]] = row["index"]
