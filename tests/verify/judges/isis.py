"""The properties of model `isis`: causal and atomic multicast in overlapping groups (cbcast-abcast-1991).

One member *survives* a view when it installs the next one, or rests in it in a complete run. A multicast is any message
but a `point`, which makes causality and counts nothing (7.2): that is only sent once, to its destinations, and carries
vector times. A message that names destinations and no view is in none, and what is said of views is not said of it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import combinations, pairwise

from tests.evs.graph import Graph
from tests.evs.judge import Violation
from tests.verify.groups import (
    Event,
    Row,
    Run,
    Stay,
    View,
    agreement,
    in_the_last_installed,
    one_sequence,
    origin,
    read,
    sent_once_by_its_process,
)


def judge(rows: Iterable[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    run = read(rows, members_have_incarnations=False)
    without = _skipped(run)
    return [
        Violation(property, why)
        for property, search in PROPERTIES.items()
        if property not in without
        for why in search(run)
    ]


def skipped(rows: Iterable[Row]) -> dict[str, str]:
    """The properties of which one run carries no evidence, each with the reason."""
    return _skipped(read(rows, members_have_incarnations=False))


def _skipped(run: Run) -> dict[str, str]:
    described = all("members" in event.row and "seq" in event.row for event in run.events if event.kind == "config")
    views = "" if run.stays else "no view is installed"
    told = views or ("" if described else "a config row lacks members or seq")
    traffic = "" if run.sends or run.deliveries else "nothing is sent or delivered"
    ends = any(event.kind in ("fail", "stop") for event in run.events)
    over = "" if any(run.survivors(view) for view in run.views) else "no view is over at a member that survives it"
    agreed = "" if any(send.service == "agreed" for send in run.all_sends) else "nothing is sent as agreed"
    times = "" if any("vt" in send.row for send in run.all_sends) else "no send row has vt"
    reasons = {
        "ISIS-VIEW": told,
        "ISIS-ADDR": traffic or told,
        "ISIS-ATOM": traffic or told or over,
        "ISIS-CAUSAL": traffic,
        "ISIS-TOTAL": traffic or agreed,
        "ISIS-FLUSH": ("" if ends else traffic) or told,
        "ISIS-GAP": traffic or told or over,
        "ISIS-VT": traffic or times or views,
    }
    return {property: why for property, why in reasons.items() if why}


# ---- views and addresses -----------------------------------------------------------------------


def views_in_sequence(run: Run) -> Iterator[str]:
    """ISIS-VIEW: each incarnation's views of a group are a contiguous part of one sequence; consecutive views differ by
    one process (4.1). Who stopped in a group may begin another part."""
    yield from agreement(run)
    for group in run.groups:
        yield from one_sequence(run, group)
    for stay in run.stays:
        if stay.before and len(stay.terms.members ^ stay.before.terms.members) != 1:
            yield f"{stay.identity} goes from {stay.before.view}, {stay.before.terms}, to {stay.view}, {stay.terms}"


def delivered_where_addressed(run: Run) -> Iterator[str]:
    """ISIS-ADDR: only members of the view (of its `dests`) deliver a multicast, all of them in that view (4.2)."""
    yield from sent_once_by_its_process(run)
    for send in run.all_sends:
        addressed = run.destinations(send)
        for delivery in run.deliveries.get(send.message, ()):
            if addressed is not None and delivery.who not in addressed:
                yield f"{delivery}, which is for {', '.join(sorted(addressed))}"
            if is_multicast(run, send.message) and send.view and delivery.view != send.view:
                yield f"{delivery} in {delivery.view or 'none'}, and it was sent in {send.view}"


def flushed(run: Run) -> Iterator[str]:
    """ISIS-FLUSH: no message sent in a view is delivered in a later one; none from an incarnation that a view of that
    group dropped is delivered after that view (4.2). A row's view is the one installed last."""
    yield from in_the_last_installed(run)
    for message, deliveries in run.deliveries.items():
        if not is_multicast(run, message):
            continue
        for delivery in deliveries:
            for send in run.sends.get(message, ()):
                if is_later(run, delivery.view, send.view):
                    yield f"{delivery} in {delivery.view}, and it was sent before, in {send.view}"
            if dropped := drop(run, origin(message), delivery.view):
                yield f"{delivery} in {delivery.view}, after {dropped} has dropped its sender"


def is_later(run: Run, one: View | None, other: View | None) -> bool:
    """Whether one view comes after the other, of the same group."""
    if one not in run.views or other not in run.views or one is None or other is None or one.group != other.group:
        return False
    return run.views[one].seq > run.views[other].seq


def drop(run: Run, identity: str, view: View | None) -> View | None:
    """A view up to this one that has dropped an incarnation, which has not installed any since."""
    if view not in run.views or view is None:
        return None
    sequence = run.sequence(view.group)
    upto = sequence[: sequence.index(view) + 1]
    been = [place for place, each in enumerate(upto) if any(stay.identity == identity for stay in run.stays_in[each])]
    since = upto[been[-1] + 1 :] if been else []
    process = identity.rpartition("/")[0]
    return next((each for each in since if process not in run.views[each].members), None)


# ---- atomicity ---------------------------------------------------------------------------------


def is_multicast(run: Run, message: str) -> bool:
    """Whether a message was sent, other than from point to point."""
    return message in run.sends and run.service(message) != "point"


def multicasts(run: Run) -> list[Event]:
    """Their sends."""
    return [send for send in run.all_sends if is_multicast(run, send.message)]


def surviving_destinations(run: Run, send: Event) -> set[str]:
    """Those that a multicast was for and that survive the view it was sent in."""
    return set(run.survivors(send.view)) & (run.destinations(send) or set())


def atomic(run: Run) -> Iterator[str]:
    """ISIS-ATOM: all members that survive the view deliver a message, or none does, the latter only if its sender did
    not survive the view and did not stop (4.2). Judged once the view is over there."""
    for send in multicasts(run):
        due = surviving_destinations(run, send)
        late = due - run.delivered_in(send.view, send.message)
        if late and late != due:
            yield f"{', '.join(sorted(late))} survive {send.view} and do not deliver {send.message}, others do"
        elif late and any(is_answerable(run, stay) for stay in stays_of(run, send)):
            yield f"{send} in {send.view} and does not fail, and {', '.join(sorted(late))} do not deliver it"


def stays_of(run: Run, send: Event) -> list[Stay]:
    """Of the sender in the view that it sent in."""
    stays = run.stays_in.get(send.view, []) if send.view else []
    return [stay for stay in stays if stay.identity == send.identity]


def is_answerable(run: Run, stay: Stay) -> bool:
    """Whether what was sent in that stay must arrive: its process survived the view, or stopped in it."""
    return stay.end == "stop" or stay.who in run.survivors(stay.view)


def no_gaps(run: Run) -> Iterator[str]:
    """ISIS-GAP: if a surviving process delivered m', every m that causally precedes it is delivered at all surviving
    destinations of m (disjoint ones too), and at a common destination before m' (4.2)."""
    causes = causal_past(run)
    kept = {
        after: delivery.who
        for after, deliveries in run.deliveries.items()
        if is_multicast(run, after)
        for delivery in deliveries
        if delivery.who in run.survivors(delivery.view)
    }
    for after, who in kept.items():
        for send in multicasts(run):
            if send.message not in causes(after):
                continue
            for other in sorted(surviving_destinations(run, send)):
                if other not in run.delivered_in(send.view, send.message):
                    yield f"{who} delivers {after}, and {other} not {send.message}, which precedes it"
                elif any(
                    stay.who == other and is_inverted(run, stay.identity, send.message, after)
                    for stay in run.stays_in[send.view]
                ):
                    yield f"{other} delivers {after} before {send.message}, which precedes it"


# ---- order -------------------------------------------------------------------------------------


def causal_past(run: Run) -> Callable[[str], set[str]]:
    """For a multicast, those others that were sent before it, by causes."""
    bits = {message: 1 << place for place, message in enumerate(run.sends)}
    before = run.precedes.marks_before({send: bits[send.message] for send in run.all_sends})

    @cache
    def past(message: str) -> set[str]:
        found = 0
        for send in run.sends.get(message, ()):
            found |= before[send]
        return {other for other, bit in bits.items() if found & bit and other != message and is_multicast(run, other)}

    return past


def is_inverted(run: Run, identity: str, first: str, second: str) -> bool:
    """Whether that incarnation delivers both, the second before the first."""
    delivered = run.delivered[identity]
    return first in delivered and second in delivered and delivered.index(second) < delivered.index(first)


def inversions(run: Run, is_judged: Callable[[str], bool]) -> Iterator[tuple[str, str, str]]:
    """Who delivers a message before another that precedes it; both of those that are judged."""
    causes = causal_past(run)
    for identity, delivered in run.delivered.items():
        judged = [message for message in delivered if is_judged(message)]
        for one, other in combinations(judged, 2):
            if other in causes(one):
                yield identity, one, other


def causal_order(run: Run) -> Iterator[str]:
    """ISIS-CAUSAL: causally related multicasts are delivered in causal order at every common destination, across all
    overlapping groups (4.2, 6.1)."""
    for identity, one, other in inversions(run, lambda message: is_multicast(run, message)):
        yield f"{identity} delivers {one} before {other}, which precedes it"


def total_order(run: Run) -> Iterator[str]:
    """ISIS-TOTAL: `agreed` messages (ABCAST) of one group are delivered in one order by all members that survive the
    view, and in causal order by everyone (4.2, 5.2)."""
    for view in run.stays_in:
        survivors = run.survivors(view)
        orders: dict[str, list[str]] = defaultdict(list)
        for event in run.events:
            is_told = event.kind == "deliver" and event.view == view and event.who in survivors
            if is_told and run.service(event.message) == "agreed" and event.message not in orders[event.who]:
                orders[event.who].append(event.message)
        edges = [edge for order in orders.values() for edge in pairwise(order)]
        if cycle := Graph(dict.fromkeys(message for order in orders.values() for message in order), edges).cycle():
            yield f"in {view} some deliver each of these before the next: {', '.join(map(str, cycle))}"
    for group in sorted({send.group for send in run.all_sends}):
        mine = {send.message for send in run.all_sends if send.group == group and send.service == "agreed"}
        for identity, one, other in inversions(run, lambda message, mine=mine: message in mine):
            yield f"{identity} delivers {one} before {other}, which precedes it"


# ---- vector times ------------------------------------------------------------------------------


class Clock:
    """The vector times of an incarnation: how many multicasts of each process it has sent or delivered in each view."""

    def __init__(self) -> None:
        self.counts: dict[View, Counter[str]] = defaultdict(Counter)
        self.at: dict[str, View] = {}
        """Where it is, by group."""


def vector_times(run: Run) -> Iterator[str]:
    """ISIS-VT: in each view of each group, vt[sender] is the number of its multicasts so far and each other entry what
    it had delivered; every delivery finds VT(m) satisfied (rules of 5.1; 2.1' to 2.3' of 6.1).

    Of a group that its sender is not in, a message repeats what others said (6.1): what it says is not judged.
    """
    readings = {}
    for events in run.incarnations.values():
        for event, clock in ticking(run, events):
            if event.kind == "send" and "vt" in event.row:
                readings[event] = dict(clock.at) | ({event.group: event.view} if event.view else {})
                yield from misstated(event, clock, readings[event])
    for events in run.incarnations.values():
        for event, clock in ticking(run, events):
            if event.kind == "deliver":
                for send in run.sends.get(event.message, ()):
                    if send in readings and send.process != event.process:
                        yield from unsatisfied(run, event, clock, send, readings[send])


def ticking(run: Run, events: list[Event]) -> Iterator[tuple[Event, Clock]]:
    """Each event of an incarnation with its clock: a send has been counted by then, a delivery has not."""
    clock = Clock()
    for event in events:
        if event.kind == "config" and event.view:
            clock.at[event.group] = event.view
        elif event.kind in ("start", "fail", "stop"):
            for group in [event.group] if event.group else list(clock.at):
                clock.at.pop(group, None)
        if event.kind == "send" and event.service != "point" and event.view:
            clock.counts[event.view][event.process] += 1
        yield event, clock
        sender = origin(event.message).rpartition("/")[0]
        is_counted = event.kind == "deliver" and event.view and run.service(event.message) != "point"
        if is_counted and event.view and sender != event.process:
            clock.counts[event.view][sender] += 1


def misstated(send: Event, clock: Clock, views: dict[str, View]) -> Iterator[str]:
    for group, times in send.row["vt"].items():
        if group in views:
            counts = clock.counts[views[group]]
            for process in sorted({*times, *counts}):
                if times.get(process, 0) != counts[process]:
                    told = f"of {group} with {times.get(process, 0)} of {process}"
                    yield f"{send} {told}, and has sent or delivered {counts[process]}"


def unsatisfied(run: Run, delivery: Event, clock: Clock, send: Event, views: dict[str, View]) -> Iterator[str]:
    for group, times in send.row["vt"].items():
        at = clock.at.get(group)
        sequence = run.sequence(group)
        view = views.get(group) or (sequence[0] if len(sequence) == 1 else None)
        is_next = group == send.group and send.service != "point"  # 2.1' and 2.2'; else 2.3'
        if at is None or view is None or (is_next and not delivery.view == send.view == at):
            continue
        if is_later(run, at, view):
            continue  # what it says of a view that is over here is ignored (5.5)
        counts = clock.counts[view]
        if is_next and times.get(send.process, 0) != counts[send.process] + 1:
            yield f"{delivery}, its sender's number {times.get(send.process, 0)}, after {counts[send.process]}"
        for process, count in times.items():
            if count > counts[process] and not (is_next and process == send.process):
                yield f"{delivery}, sent after {count} of {process} in {group}, after {counts[process]}"


PROPERTIES: dict[str, Callable[[Run], Iterator[str]]] = {
    "ISIS-VIEW": views_in_sequence,
    "ISIS-ADDR": delivered_where_addressed,
    "ISIS-ATOM": atomic,
    "ISIS-CAUSAL": causal_order,
    "ISIS-TOTAL": total_order,
    "ISIS-FLUSH": flushed,
    "ISIS-GAP": no_gaps,
    "ISIS-VT": vector_times,
}
