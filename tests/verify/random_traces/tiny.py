"""What the random tiny traces of all models are made with: odd names, a pen for each process, and what spoils a trace.

Everything is drawn with `random()` alone, so that a seed is the same trace everywhere.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from tests.verify.runs import in_runs

Row = dict[str, Any]
T = TypeVar("T")

NAMES = ["p", "q 2", 'r"3"', "s/1/2", "é\\t", "日本", "", "x'y", "a>b", "u,v"]
GROUPS = ["", "", "", "g", "grüße/1"]


class Draw:
    """A random number generator that says what is drawn."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, bound: int) -> int:
        return int(self._random.random() * bound)

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T], probability: float = 0.5) -> list[T]:
        """At least one, in their order."""
        return [each for each in choices if self.chance(probability)] or [self.one(choices)]

    def names(self, count: int) -> list[str]:
        """Different names of processes, sorted."""
        pool = [name for name in NAMES if name]
        return sorted(pool.pop(self.below(len(pool))) for _ in range(count))


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
        group = "" if event in ("start", "fail", "stop") else self.group
        common = {"run": "r", "process": self.process, "incarnation": self.incarnation, "index": len(self.rows)}
        self.rows.append({**common, "time_ns": 0, "group": group, "event": event, **columns})


def trace_of(model: str, pens: Iterable[Pen], complete: bool, healed: bool, **columns: Any) -> list[Row]:
    """The header and the rows."""
    header = {"run": "r", "process": "", "incarnation": 1, "index": 0, "time_ns": 0, "group": "", "event": "run"}
    header |= {"model": model, "complete": complete, "healed": healed, **columns}
    return [header, *(row for pen in pens for row in pen.rows)]


def finished(draw: Draw, rows: list[Row], is_spoiled: bool) -> list[Row]:
    """The trace as it is given out: spoiled or not, and half of them with a row for many messages."""
    for _ in range(1 + draw.below(3) if is_spoiled else 0):
        spoil(draw, rows)
    return in_runs(rows) if draw.chance(0.5) else rows


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


def spoil(draw: Draw, rows: list[Row]) -> None:
    """Change one thing; what the strict reader asks for remains."""
    if len(rows) < 3:
        return
    way = draw.below(6)
    if way == 0:
        rows.pop(_place(draw, rows))
    elif way == 1:
        place = _place(draw, rows)
        rows.insert(place, dict(rows[place]))
    elif way == 2:
        _swap(draw, rows)
    else:
        _change(draw, rows)
    _number_again(rows)


def _place(draw: Draw, rows: list[Row]) -> int:
    """Where some row is; each kind of event comes up as often as any other."""
    kind = draw.one(sorted({row["event"] for row in rows[1:]}))
    return draw.one([place for place, row in enumerate(rows) if row["event"] == kind])


def _swap(draw: Draw, rows: list[Row]) -> None:
    """Two rows of one incarnation, mostly neighbours."""
    one = _place(draw, rows)
    other = one + 1 + draw.below(1 if draw.chance(0.6) else 4)
    if other < len(rows) and (rows[one]["process"], rows[one]["incarnation"]) == (
        rows[other]["process"],
        rows[other]["incarnation"],
    ):
        rows[one], rows[other] = rows[other], rows[one]


def _change(draw: Draw, rows: list[Row]) -> None:
    """A column of some row: a number by one or two, anything to what some other row says there."""
    name = draw.one(sorted({name for row in rows[1:] for name in row.keys() & set(CHANGED)} or {"event"}))
    having = [row for row in rows[1:] if name in row]
    if name == "event":
        return
    row, other = draw.one(having), draw.one(having)
    if name == "counters":
        counter = draw.one(sorted(row[name]))
        row[name] = {**row[name], counter: max(0, row[name][counter] + draw.one([-2, -1, 1, 2]))}
    elif isinstance(row[name], bool):
        row[name] = not row[name]
    elif isinstance(row[name], int) and draw.chance(0.5):
        row[name] = max(0, row[name] + draw.one([-2, -1, 1, 2]))
    elif name == "members" and draw.chance(0.5) and len(row[name]) > 1:
        row[name] = [member for member in row[name] if member != draw.one(row[name])]
    else:
        row[name] = other[name]


def _number_again(rows: list[Row]) -> None:
    index: dict[str, int] = {}
    for row in rows[1:]:
        row["index"] = index.get(row["process"], -1) + 1
        index[row["process"]] = row["index"]
