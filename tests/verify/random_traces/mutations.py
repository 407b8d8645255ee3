"""What is done to the rows of a good run, so that it is not as it happened.

The rows can still be read: ids keep their form, and indexes are given anew in each process.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tests.verify.random_traces.draw import Draw

Row = dict[str, Any]
Mutation = Callable[[Draw, list[Row]], None]


def mutated(draw: Draw, rows: list[Row], aimed: Sequence[Mutation] = ()) -> list[Row]:
    """The rows with one or two mutations, which the header names; half of them those that are aimed at a model."""
    header, *events = [dict(row) for row in rows]
    names = []
    for _ in range(1 + draw.below(2)):
        mutation = draw.one_of(aimed if aimed and draw.is_so(0.5) else MUTATIONS)
        if events:
            mutation(draw, events)
            names.append(mutation.__name__)
    indexes: dict[str, int] = {}
    for row in events:
        row["index"] = indexes.get(row["process"], 0)
        indexes[row["process"]] = row["index"] + row.get("count", 1)
    return [{**header, "mutation": ", ".join(names)}, *events]


def drop(draw: Draw, rows: list[Row]) -> None:
    del rows[draw.below(len(rows))]


def repeat(draw: Draw, rows: list[Row]) -> None:
    row = draw.one_of(rows)
    later = [place for place, other in enumerate(rows) if is_beside(row, other)]
    rows.insert(draw.one_of(later) + 1, dict(row))


def swap(draw: Draw, rows: list[Row]) -> None:
    """Two rows of one incarnation change places."""
    one = draw.below(len(rows))
    other = draw.one_of([place for place, row in enumerate(rows) if is_beside(rows[one], row)])
    rows[one], rows[other] = rows[other], rows[one]


def move(draw: Draw, rows: list[Row]) -> None:
    """A row gets another place in its incarnation."""
    row = rows.pop(draw.below(len(rows)))
    places = [place for place, other in enumerate(rows) if is_beside(row, other)] or [len(rows)]
    rows.insert(draw.one_of(places), row)


def swap_deliveries(draw: Draw, rows: list[Row]) -> None:
    """Two neighbouring deliveries of one incarnation change places."""
    places = [place for place, row in enumerate(rows) if row["event"] == "deliver"]
    pairs = [
        (one, next(other for other in places if other > one and is_beside(rows[one], rows[other])))
        for one in places
        if any(other > one and is_beside(rows[one], rows[other]) for other in places)
    ]
    if pairs:
        one, other = draw.one_of(pairs)
        rows[one], rows[other] = rows[other], rows[one]


def lose(draw: Draw, rows: list[Row]) -> None:
    """Nobody delivers a message, or all but one do."""
    sends = [row for row in rows if row["event"] == "send"]
    if sends:
        lost = draw.one_of(sends)["message"]
        deliveries = [row for row in rows if row["event"] == "deliver" and row["message"] == lost]
        spared = draw.one_of(deliveries) if deliveries and draw.is_so(0.3) else None
        rows[:] = [row for row in rows if row is spared or row not in deliveries]


def change(draw: Draw, rows: list[Row]) -> None:
    """A column of a row says something else: what another row of that kind says, or another number."""
    row = draw.one_of(rows)
    columns = [name for name in CHANGED if name in row]
    if columns:
        name = draw.one_of(columns)
        others = [other[name] for other in rows if name in other and other["event"] == row["event"]]
        row[name] = _another(draw, row[name], draw.one_of(others))


def fail(draw: Draw, rows: list[Row]) -> None:
    """A process fails in the midst of its work, and goes on."""
    place = draw.below(len(rows))
    row = rows[place]
    common = {name: row[name] for name in ("run", "process", "incarnation", "index", "time_ns")}
    rows.insert(place, {**common, "group": "", "event": draw.one_of(["fail", "stop"])})


def is_beside(row: Row, other: Row) -> bool:
    return (row["process"], row["incarnation"]) == (other["process"], other["incarnation"])


def _another(draw: Draw, value: Any, other: Any) -> Any:
    if isinstance(value, int):
        return max(0, value + draw.one_of([-1, 1, 2]))
    if isinstance(value, list) and value and draw.is_so(0.5):
        spared = draw.below(len(value))
        return [each for place, each in enumerate(value) if place != spared]
    if isinstance(value, dict) and value:
        name = draw.one_of(list(value))
        inner = value[name]
        return {**value, name: _another(draw, inner, inner)}
    return other


CHANGED = (
    *("message", "config", "members", "seq", "ordinal", "service", "label", "dests", "vt", "action", "subject"),
    *("client", "item", "mode", "counters", "group"),
)

MUTATIONS: list[Mutation] = [drop, repeat, swap, move, swap_deliveries, lose, change, fail]
