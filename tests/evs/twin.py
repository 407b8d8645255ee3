"""Steps 3 to 6 of the recovery algorithm in the fewest lines: evs-1994, section 3, as the paper says it.

No frames, no ring, no token: a total order is a mapping from ordinal numbers to messages, what a process has received
is a set of numbers. The paper leaves open who sends a message again: here it is the first, by name, that has it.
"""

from collections.abc import Mapping, Set
from typing import NamedTuple


class Message(NamedTuple):
    """In the total order of a configuration."""

    sender: str
    is_safe: bool
    """Whether safe delivery was requested."""


class Told(NamedTuple):
    """Step 3: what a process supplies."""

    old: str
    """Its last regular configuration."""
    received: Set[int]
    delivered: int
    """So many messages of the total order, from the first on."""
    safe: int
    """All of that configuration have acknowledged the messages up to here, as it knows."""
    obligations: Set[str]


class Outcome(NamedTuple):
    """What one process does."""

    members: list[str]
    """4.a: of the transitional configuration."""
    again: dict[str, list[tuple[str, int]]]
    """4.b: the messages that each process rebroadcasts: of which configuration, and which of its order."""
    obligations: Set[str]
    """5.c"""
    regular: list[int]
    """6.b"""
    transitional: list[int]
    """6.d"""
    discarded: list[int]
    """6.a"""
    holes: list[int]
    """The unavailable messages before the last available one."""


def recover(orders: Mapping[str, Mapping[int, Message]], told: Mapping[str, Told], me: str) -> Outcome:
    """Return what `me` does when these form a new configuration."""

    def with_me(name: str) -> list[str]:
        return sorted(other for other in told if told[other].old == told[name].old)

    mine, order, members = told[me], orders[told[me].old], with_me(me)
    again: dict[str, list[tuple[str, int]]] = {name: [] for name in told}
    for old, number in sorted({(each.old, number) for each in told.values() for number in each.received}):
        having = [name for name in sorted(told) if told[name].old == old and number in told[name].received]
        if having != with_me(having[0]):
            again[having[0]].append((old, number))
    obligations = mine.obligations.union(members, *(told[name].obligations for name in members))
    available = set().union(*(told[name].received for name in members))
    unavailable = min(set(range(1, len(order) + 2)) - available)
    kept = {number for number in available if number < unavailable or order[number].sender in obligations}
    safe = max(told[name].safe for name in members)
    unsafe = [number for number in order if order[number].is_safe and number > safe]
    end = min([unavailable, *unsafe])
    return Outcome(
        members,
        again,
        obligations,
        regular=[number for number in sorted(kept) if mine.delivered < number < end],
        transitional=[number for number in sorted(kept) if number > mine.delivered and number >= end],
        discarded=sorted(available - kept),
        holes=sorted(set(range(1, max(available, default=0))) - available),
    )
