"""An independent judge of site views: reads a trace, knows nothing of the protocol or the simulator.

What the model `isis85` promises of site views, and nothing more than the rows say:

- I85-SITE: all incarnations go through one sequence of views. Views of one number agree, a process installs
  only views that contain it, one after the other without a hole, and never a lower one.
- No two majorities diverge: every view holds a majority of the universe, so any two views share a site.
- The paper's "a site is killed": an incarnation that has left the sequence is not in a later view, and a
  later incarnation is not followed by an earlier one.
- I85-LIVE, on complete and healed runs: all sites that are up, if they are a majority, rest in one view of
  exactly themselves. On complete runs that are not healed the same, for each set of sites that can reach one
  another, where the caller knows them.

`judge` returns what is wrong, in sentences; nothing for a good trace.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

Row = dict[str, Any]


class Installed(NamedTuple):
    """One view as one incarnation installed it."""

    who: str
    seq: int
    config: str
    members: tuple[str, ...]


def judge(rows: Iterable[Row], components: Iterable[set[str]] = ()) -> list[str]:
    """What the site views of one run violate; at its end these processes could reach one another."""
    ordered = sorted(rows, key=lambda row: (row["process"], row["index"]))
    header, *events = ordered
    assert header["event"] == "run", "the process of a header sorts first"
    views = [
        Installed(f"{row['process']}/{row['incarnation']}", row["seq"], row["config"], tuple(row["members"]))
        for row in events
        if row["event"] == "config"
    ]
    found = [*_agreement(views), *_contiguity(views), *_no_return(views), *_majorities(views, header["universe"])]
    found += _after_the_end(events)
    if header["complete"]:
        up = _up(events)
        rests = {view.who: view for view in views if view.who in up}
        together = [up] if header["healed"] else [{who for who in up if name_of(who) in each} for each in components]
        for component in together:
            found += _in_one_view(component, rests, header["universe"])
    return found


def name_of(member: str) -> str:
    return member.rpartition("/")[0]


def incarnation_of(member: str) -> int:
    return int(member.rpartition("/")[2])


def has_majority(members: Iterable[str], universe: Iterable[str]) -> bool:
    configured = set(universe)
    return 2 * len(configured & {name_of(member) for member in members}) > len(configured)


def _agreement(views: list[Installed]) -> Iterator[str]:
    """Views of one number are one view; it has the installer among its members, each site once."""
    first: dict[int, Installed] = {}
    for view in views:
        other = first.setdefault(view.seq, view)
        if (other.config, other.members) != (view.config, view.members):
            yield f"{view.who} installs view {view.seq} as {view.members}, {other.who} as {other.members}"
        if view.who not in view.members:
            yield f"{view.who} installs view {view.seq}, of which it is no member"
        if len({name_of(member) for member in view.members}) != len(view.members):
            yield f"view {view.seq} holds two incarnations of one site: {view.members}"


def _contiguity(views: list[Installed]) -> Iterator[str]:
    by_incarnation = defaultdict(list)
    for view in views:
        by_incarnation[view.who].append(view.seq)
    for who, numbers in by_incarnation.items():
        for one, other in pairwise(numbers):
            if other != one + 1:
                yield f"{who} installs view {other} straight after view {one}"


def _no_return(views: list[Installed]) -> Iterator[str]:
    members_of = {view.seq: view.members for view in views}
    last_seen: dict[str, int] = {}
    newest: dict[str, int] = {}
    numbers = sorted(members_of)
    for place, number in enumerate(numbers):
        for member in members_of[number]:
            seen = last_seen.get(member)
            if seen is not None and seen != place - 1:
                yield f"{member} comes back in view {number}, after view {numbers[seen]}"
            last_seen[member] = place
            if incarnation_of(member) < newest.get(name_of(member), 0):
                yield f"view {number} has {member} after {newest[name_of(member)]}"
            newest[name_of(member)] = max(newest.get(name_of(member), 0), incarnation_of(member))


def _majorities(views: list[Installed], universe: list[str]) -> Iterator[str]:
    for number, members in sorted({(view.seq, view.members) for view in views}):
        if not has_majority(members, universe):
            yield f"view {number} {members} has no majority of {universe}"


def _after_the_end(events: list[Row]) -> Iterator[str]:
    """Nobody does anything after it failed or stopped, nor before it started."""
    state: dict[str, str] = {}
    for row in events:
        who = f"{row['process']}/{row['incarnation']}"
        if row["event"] == "start":
            if who in state:
                yield f"{who} starts twice"
            state[who] = "up"
        elif state.get(who) != "up":
            yield f"{who}: {row['event']} while it is {state.get(who, 'not started')}"
        elif row["event"] in ("fail", "stop"):
            state[who] = "down"


def _up(events: list[Row]) -> set[str]:
    up: set[str] = set()
    for row in events:
        who = f"{row['process']}/{row['incarnation']}"
        if row["event"] == "start":
            up.add(who)
        elif row["event"] in ("fail", "stop"):
            up.discard(who)
    return up


def _in_one_view(up: set[str], rests: dict[str, Installed], universe: list[str]) -> Iterator[str]:
    if not has_majority(up, universe):
        return
    for who in sorted(up):
        if who not in rests:
            yield f"{who} rests in no view"
        elif set(rests[who].members) != up:
            yield f"{who} rests in view {rests[who].seq} {rests[who].members}, and {sorted(up)} are up"
