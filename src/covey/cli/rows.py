"""Arrange the events of a run in rows: what happens within an instant side by side, no two in one place."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from covey.cli.watch import Event

INSTANT_S = 0.05
TRAFFIC_S = 1.0
"""Instants with nothing but messages take so long."""

TRAFFIC = {"send", "deliver"}
NETWORK = {"cut", "mend"}
SUPERSEDED = {("propose", "lead"), ("propose", "view"), ("accept", "view"), ("fail", "halt"), ("fail", "rob")}
"""Of two kinds at one member in one instant only the second is shown; messages give way to all."""


class Row(NamedTuple):
    """Events that are drawn in one line."""

    at: float
    cells: dict[str, Event]
    """At most one for each member."""
    others: list[Event]
    """What has no place in a column: of the network, or just words."""


def rows(events: Iterable[Event], led: set[int | None] | None = None) -> Iterator[Row]:
    """Arrange them all; the network's are alone in their rows. The views in `led` have been led already."""
    instant: list[Row] = []
    for event in _with_leads(events, set() if led is None else led):
        if instant and not _belongs(event, instant):
            yield from instant
            instant = []
        if event.kind in NETWORK:
            yield Row(event.at, {}, [event])
        else:
            _place(event, instant)
    yield from instant


def _with_leads(events: Iterable[Event], led: set[int | None]) -> Iterator[Event]:
    """Mark the first installation of each view."""
    for event in events:
        if event.kind == "view" and event.number not in led:
            led.add(event.number)
            yield replace(event, kind="lead")
        else:
            yield event


def _belongs(event: Event, instant: list[Row]) -> bool:
    """Whether the event is of that instant."""
    if event.kind in NETWORK:
        return False
    if not event.member:
        return event.at == instant[0].at
    kinds = {event.kind}.union(*({each.kind for each in (*row.cells.values(), *row.others)} for row in instant))
    return event.at - instant[0].at <= (TRAFFIC_S if kinds <= TRAFFIC else INSTANT_S)


def _place(event: Event, instant: list[Row]) -> None:
    """Put it below whatever the instant holds of the same member already."""
    if not event.member:
        if not instant:
            instant.append(Row(event.at, {}, []))
        instant[-1].others.append(event)
        return
    place = max((place for place, row in enumerate(instant) if event.member in row.cells), default=-1)
    merged = _merged(instant[place].cells[event.member], event) if place >= 0 else None
    if merged is not None:
        instant[place].cells[event.member] = merged
        return
    if place + 1 == len(instant):
        instant.append(Row(event.at, {}, []))
    instant[place + 1].cells[event.member] = event


def _merged(there: Event, event: Event) -> Event | None:
    """What is shown for both; None where each needs a place."""
    if event.kind == "deliver":
        return there
    if there.kind == event.kind == "send":
        return replace(there, number=(there.number or 0) + (event.number or 0))
    if there.kind in TRAFFIC or (there.kind, event.kind) in SUPERSEDED:
        return event
    return None
