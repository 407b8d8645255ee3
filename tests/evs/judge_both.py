"""What both models demand, `evs` of configurations and `vs` of views: the ids of `vs` are in `judge_vs`."""

from collections.abc import Iterator
from itertools import pairwise

from tests.evs.graph import Graph
from tests.evs.history import FAILURES, Event, History, View, installation, origin


def cycle(graph: Graph) -> Iterator[str]:
    if found := graph.cycle():
        yield "each precedes the next: " + "; ".join(map(str, found))


# ---- messages ----------------------------------------------------------------------------------


def unsent(delivery: Event) -> str:
    return f"{delivery}, which nobody sent"


def is_later(send: Event, delivery: Event) -> bool:
    return send.who == delivery.who and send.number > delivery.number


def sent_by_its_process(history: History) -> Iterator[str]:
    for message, sends in history.sends.items():
        for send in sends:
            if send.identity != origin(message):
                yield f"{send.identity} sends {message}, whose id names another"


def sent_once(history: History) -> Iterator[str]:
    for message, sends in history.sends.items():
        if len(sends) > 1:
            yield f"{message} is sent {len(sends)} times: in {' and '.join(send.config for send in sends)}"


def delivered_once(history: History) -> Iterator[str]:
    for deliveries in history.deliveries.values():
        seen = set()
        for delivery in deliveries:
            if delivery.who in seen:
                yield f"{delivery} again, in {delivery.config}"
            seen.add(delivery.who)


# ---- configurations ----------------------------------------------------------------------------


def in_the_last_installed(history: History) -> Iterator[str]:
    """EVS-2.2: every send, deliver, fail and stop happens in the configuration that its process installed last,
    with no fail, stop or start in between.

    Who fails before it has installed any since its start fails in none.
    """
    for events in history.processes.values():
        for before, event in zip([None, *events], events, strict=False):
            if event.kind in ("config", "start"):
                continue
            if event.stay is None and event.kind in FAILURES and not event.config:
                if before and before.kind in ("fail", "stop"):
                    yield f"{event} when it has failed"
            elif event.stay is None:
                yield f"{event} in {event.config or 'no configuration'}, and has none installed"
            elif event.config != event.stay.config:
                yield f"{event} in {event.config}, and has installed {event.stay.config} last"


def agreement(history: History) -> Iterator[str]:
    """EVS-2.6: all installations of one configuration agree on kind, members, seq, primary and previous; a process
    installs only configurations that contain it, with growing seq."""
    for stays in history.stays_in.values():
        first = stays[0]
        for stay in stays:
            if stay.view != first.view:
                yield f"{stay.who} installs {stay.config} as {told(stay.view)}, {first.who} as {told(first.view)}"
            if stay.who not in stay.view.members:
                yield f"{stay.who} installs {stay.config}, of which it is no member"
    for events in history.processes.values():
        stays = [event.stay for event in events if event.kind == "config" and event.stay]
        for one, other in pairwise(stays):
            if one.view.seq >= other.view.seq:
                yield f"{other.who} installs {other.config}, number {other.view.seq}, after number {one.view.seq}"


def told(view: View) -> str:
    primary = {True: "primary, ", False: "not primary, ", None: ""}[view.primary]
    end = f", the end of {view.previous}" if view.previous else ""
    return f"{view.kind}, {primary}number {view.seq} of {', '.join(sorted(view.members))}{end}"


def is_ordered(history: History, message: str) -> bool:
    return history.service(message) in ("agreed", "safe")


# ---- primary components (evs-1994, 2.2) --------------------------------------------------------


def primary_order(history: History) -> Iterator[str]:
    """PC-1: primary components, in the order of seq, are totally ordered by precedes: from each there is a path to the
    next, installations merged. Those of one number may be in either order."""
    components = primary_components(history)
    marks = {installation(config): 1 << place for place, config in enumerate(components)}
    before = history.precedes_by_view.marks_before(marks)
    for one, other in pairwise(components):
        there, back = before[installation(other)], before[installation(one)]
        is_tie = history.views[one].seq == history.views[other].seq
        if not (there & marks[installation(one)] or (is_tie and back & marks[installation(other)])):
            yield f"primary component {one} does not precede the next one, {other}"


def primary_continuity(history: History) -> Iterator[str]:
    """PC-2: primary components consecutive in the order of seq share a process."""
    for one, other in pairwise(primary_components(history)):
        if not processes_of(history, one) & processes_of(history, other):
            yield f"primary component {other} has no process of the one before, {one}"


def primary_components(history: History) -> list[str]:
    """In the order of seq."""
    primary = [config for config, view in history.views.items() if view.primary and view.kind == "regular"]
    return sorted(primary, key=lambda config: (history.views[config].seq, config))


def processes_of(history: History, config: str) -> set[str]:
    members = history.members(config)
    return {origin(member) for member in members} if history.model == "vs" else set(members)
