"""The properties of model `isis85`: site views, broadcasts and failures (isis-1985).

Members and destinations are incarnations, and no information survives a failure (section 2). Group "" is the site
layer. One is *operational* if it neither fails nor stops in the run, as a whole or in the group. A broadcast is any
message but a `point` or an `order`; it is addressed to the view that it names, or to its `dests`, which may be both.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from tests.evs.graph import Graph
from tests.evs.judge import Violation
from tests.verify.groups import (
    Event,
    Row,
    Run,
    agreement,
    in_the_last_installed,
    one_sequence,
    origin,
    read,
    sent_once_by_its_process,
)

SITES = ""
"""The group of the site layer."""


def judge(rows: Iterable[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    rows = list(rows)
    runs = by_group(rows)
    without = _skipped(runs)
    found = [
        Violation(property, why)
        for property, search in PROPERTIES.items()
        if property not in without
        for group, run in runs.items()
        for why in search(run, group)
    ]
    if "I85-ADDR" not in without:  # a process that fails as a whole may name its view in any group
        whole = read(rows, members_have_incarnations=True)
        found += [Violation("I85-ADDR", why) for why in in_the_last_installed(whole, outsiders_may_send=True)]
    return found


def skipped(rows: Iterable[Row]) -> dict[str, str]:
    """The properties of which one run carries no evidence, each with the reason."""
    return _skipped(by_group(list(rows)))


def by_group(rows: list[Row]) -> dict[str, Run]:
    """The run as each of its groups sees it: with rows about a process as a whole, which belong to every group."""
    whole = read(rows, members_have_incarnations=True)
    runs = {}
    for group in sorted({row["group"] for row in rows}):
        mine = [row for row in rows if row["group"] == group or is_about_the_process(row)]
        runs[group] = read(mine, members_have_incarnations=True)
        runs[group].known, runs[group].ended = whole.known, whole.ended
    return runs


def is_about_the_process(row: Row) -> bool:
    return row["event"] in ("run", "start", "fail", "stop") and not row["group"]


def _skipped(runs: dict[str, Run]) -> dict[str, str]:
    header = next(iter(runs.values())).header
    events = [event for group, run in runs.items() for event in run.events if event.group == group]
    installs = [event for event in events if event.kind == "config"]
    kinds = {event.kind for event in events}
    described = all("members" in event.row and "seq" in event.row for event in installs)
    grouped = "gbcast" in {event.service for event in events} or any(event.group != SITES for event in installs)
    complete = "" if header["complete"] else "the run is not complete"
    healed = "" if header["healed"] else "the run is not healed"
    views = "" if installs else "no view is installed"
    told = "" if described else "a config row lacks members or seq"
    sites = "" if any(event.group == SITES for event in installs) else "no site view is installed"
    sends = [event for event in events if event.kind == "send"]
    services = {send.service for send in sends}
    bcast = any(send.service == "bcast" and "label" in send.row for send in sends)
    obcast = any(send.service == "obcast" and isinstance(send.row.get("label"), list) for send in sends)
    addresses = "" if services - {"point", "order"} else "nothing is broadcast"
    failures = "" if any(is_failure(send) for send in sends) else "no failure is broadcast"
    stored = any("stored" in event.row.get("counters", ()) for event in events if event.kind == "state")
    reasons = {
        "I85-SITE": views or told,
        "I85-LIVE": complete or healed or sites or ("" if "universe" in header else "the header has no universe"),
        "I85-ATOM": complete or addresses or told,
        "I85-BCAST": "" if bcast else "no BCAST has a label",
        "I85-OBCAST": "" if obcast else "no OBCAST has a list as its label",
        "I85-GBCAST": told if grouped else "nothing is sent as GBCAST, no view of a group is installed",
        "I85-FAIL": failures,
        "I85-ADDR": told if kinds & {"send", "deliver", "fail", "stop"} else "no row says where it happened",
        "I85-FLUSH": "" if "flush" in kinds else "no flush returns",
        "I85-LOCK": "" if "lock" in kinds else "nothing is locked",
        "I85-GC": complete or ("" if stored else "no state row counts what is stored"),
    }
    return {property: why for property, why in reasons.items() if why}


# ---- sites -------------------------------------------------------------------------------------


def site_views(run: Run, group: str) -> Iterator[str]:
    """I85-SITE: each incarnation's site views are a contiguous part of one sequence (4.2); all agree on each view, of a
    group, too, and install only those that contain them, with growing seq."""
    yield from agreement(run)
    if group == SITES:
        yield from one_sequence(run, group)


def sites_at_rest(run: Run, group: str) -> Iterator[str]:
    """I85-LIVE: all sites that are up and belong to a majority rest in the same view (4.2). In a healed run all that
    are up can reach one another."""
    if group != SITES:
        return
    universe = set(run.header["universe"])
    last: dict[str, Event] = {events[-1].process: events[-1] for events in run.incarnations.values()}
    up = {process: event for process, event in last.items() if run.is_operational(event.identity, group)}
    if 2 * len(universe & up.keys()) <= len(universe):
        return
    rests = {stay.process: stay.view.config for stay in run.stays if not stay.end}
    for process in sorted(up):
        if len({rests.get(other) for other in up}) > 1 or process not in rests:
            yield f"{process} rests in {rests.get(process, 'no view')}"


# ---- atomicity ---------------------------------------------------------------------------------


def broadcasts(run: Run) -> list[Event]:
    """Their sends."""
    return [send for send in run.all_sends if send.service not in ("point", "order")]


def rejects(run: Run, message: str) -> list[Event]:
    return [event for event in run.events if event.kind == "reject" and event.message == message]


def operational_destinations(run: Run, send: Event) -> list[str]:
    return [each for each in sorted(run.destinations(send) or ()) if run.is_operational(each, send.group)]


def atomic(run: Run, group: str) -> Iterator[str]:
    """I85-ATOM, in a complete run: a broadcast is delivered by all its operational destinations or by none; the latter
    only if its sender failed or its address was stale, and no operational process delivered anything that causally
    follows a delivery of it (section 3, and its note 2)."""
    for send in broadcasts(run):
        due = operational_destinations(run, send)
        have = {delivery.identity for delivery in run.deliveries.get(send.message, ())}
        late = [each for each in due if each not in have]
        if late and len(late) < len(due):
            yield f"{', '.join(late)} are operational and do not deliver {send.message}, others do"
        elif late and run.is_operational(send.identity, group) and not rejects(run, send.message):
            yield f"{send} and does not fail, and {', '.join(late)} do not deliver it"
        elif late and (known := is_known(run, send)):
            yield f"nobody delivers {send.message} who is operational, and {known}, which follows its delivery"


def is_known(run: Run, send: Event) -> Event | None:
    """What an operational process delivers after somebody's delivery of that message."""
    for delivery in run.deliveries.get(send.message, ()):
        for event in run.events:
            is_told = event.kind == "deliver" and run.is_operational(event.identity, event.group)
            if is_told and event is not delivery and run.precedes.path(delivery, event):
                return event
    return None


def addressed(run: Run, group: str) -> Iterator[str]:
    """I85-ADDR: a broadcast addressed to a group is delivered only by members of the view that it names, in that view;
    a stale address is rejected by all (3.5). (A row's view is the one installed last, but who is in none of the group
    may send to any: that is judged of all groups at once.)"""
    yield from sent_once_by_its_process(run)
    for send in run.all_sends:
        to = run.destinations(send)
        for delivery in run.deliveries.get(send.message, ()):
            if to is not None and delivery.identity not in to:
                yield f"{delivery}, which is for {', '.join(sorted(to))}"
            if send in broadcasts(run) and send.view and delivery.view != send.view:
                yield f"{delivery} in {delivery.view or 'none'}, and it is for {send.view}"
            for reject in rejects(run, send.message):
                yield f"{delivery}, and {reject.identity} rejects it"


# ---- order -------------------------------------------------------------------------------------


def opposed(run: Run, is_judged: Callable[[Event, Event], bool]) -> Iterator[str]:
    """Pairs of broadcasts that two incarnations deliver in different orders."""
    sends = {message: found[0] for message, found in run.sends.items()}
    first: dict[frozenset[str], tuple[str, str, str]] = {}
    for identity, delivered in run.delivered.items():
        for one, other in combinations([message for message in delivered if message in sends], 2):
            if is_judged(sends[one], sends[other]):
                who, before, after = first.setdefault(frozenset((one, other)), (identity, one, other))
                if before != one:
                    yield f"{who} delivers {before} before {after}, {identity} after it"


def same_label_same_order(run: Run, group: str) -> Iterator[str]:
    """I85-BCAST: two BCASTs with the same label are delivered in the same order at all common destinations (3.1)."""

    def is_judged(one: Event, other: Event) -> bool:
        label = one.row.get("label")
        return one.service == other.service == "bcast" and label is not None and label == other.row.get("label")

    yield from opposed(run, is_judged)


def group_broadcasts(run: Run, group: str) -> Iterator[str]:
    """I85-GBCAST: a GBCAST is ordered the same way relative to all BCASTs and OBCASTs, and to all GBCASTs of the same
    group, at members that deliver both; members of a group go through one sequence of its views (3.3)."""

    def is_judged(one: Event, other: Event) -> bool:
        services = {one.service, other.service}
        return "gbcast" in services and services <= {"bcast", "obcast", "gbcast"}

    yield from opposed(run, is_judged)
    if group != SITES:
        yield from one_sequence(run, group)


def is_less(one: object, other: object) -> bool:
    """Whether one olabel is less than the other: no component is greater, and some component is less."""
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return False
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def ordered_broadcasts(run: Run, group: str) -> Iterator[str]:
    """I85-OBCAST: B *precedes* B' is the closure of: olabel(B) < olabel(B'), and either one sender sends B first, or B
    is delivered at the sender of B' before it sends B'. Who delivers B' and is addressed by B has delivered B before,
    unless B was rejected as stale (3.2)."""
    sends = [send for send in run.all_sends if send.service == "obcast"]
    labels = defaultdict(list)
    for send in sends:
        labels[send.message].append(send.row.get("label"))
    edges = []
    for events in run.incarnations.values():
        seen: list[str] = []
        for event in events:
            if event.kind == "send" and event.service == "obcast":
                edges += [
                    (before, event.message)
                    for before in seen
                    if any(is_less(label, event.row.get("label")) for label in labels[before])
                ]
            if event.message in labels and event.kind in ("send", "deliver"):
                seen.append(event.message)
    precedes = Graph(labels, edges)
    for one in sends:
        followers = [other for other in labels if other != one.message and precedes.path(one.message, other)]
        if rejects(run, one.message):
            continue
        for identity in sorted(run.destinations(one) or ()):
            delivered = run.delivered.get(identity, [])
            for other in followers:
                upto = delivered[: delivered.index(other)] if other in delivered else delivered
                if other in delivered and one.message not in upto:
                    yield f"{identity} delivers {other} and not {one.message} before, which precedes it"


# ---- failures ----------------------------------------------------------------------------------


def is_failure(send: Event) -> bool:
    return send.service == "gbcast" and send.row.get("action") == "failed" and "subject" in send.row


def nothing_after_failure(run: Run, group: str) -> Iterator[str]:
    """I85-FAIL: who has delivered a failure GBCAST for an incarnation delivers nothing from it afterwards (3.3)."""
    for events in run.incarnations.values():
        failed: set[str] = set()
        for event in events:
            if event.kind == "deliver":
                if origin(event.message) in failed:
                    yield f"{event} after it was told that its sender has failed"
                failed |= {send.row["subject"] for send in run.sends.get(event.message, ()) if is_failure(send)}


def flushes(run: Run, group: str) -> Iterator[str]:
    """I85-FLUSH: when `flush` returns, every OBCAST that its process had sent or delivered is delivered at its
    operational destinations: an edge from each of these deliveries to the flush makes no cycle (3.4)."""
    returned = []
    for events in run.incarnations.values():
        pending: dict[str, None] = {}
        for event in events:
            if event.kind in ("send", "deliver") and run.service(event.message) == "obcast":
                pending[event.message] = None
            elif event.kind == "flush":
                returned += [(message, event) for message in pending]
    edges = [(delivery, flush) for message, flush in returned for delivery in run.deliveries.get(message, ())]
    graph = Graph(run.events, [*run.causes, *edges])
    for delivery, flush in edges:
        if graph.path(flush, delivery):
            yield f"{delivery} after {flush.identity} was flushed of it"
    for message, flush in returned:
        have = {delivery.identity for delivery in run.deliveries.get(message, ())}
        for send in run.sends.get(message, ()) if not rejects(run, message) else ():
            for other in operational_destinations(run, send):
                if other not in have:
                    yield f"{flush.identity} is flushed of {message}, and {other} does not deliver it"


# ---- locks and store ---------------------------------------------------------------------------


def locks(run: Run, group: str) -> Iterator[str]:
    """I85-LOCK: at each component no other client holds an item during a write lock on it; a read lock known to any
    surviving process is registered at all components before the failure GBCAST of the site that took it (5.3)."""
    yield from locked_twice(run)
    taken = [event for event in run.events if event.kind == "lock" and event.row["mode"] == "read"]
    for lock in taken:
        same = [event for event in taken if is_same_lock(event, lock) and event.process != lock.process]
        if any(run.precedes.path(other, lock) for other in same):
            continue  # the registration of a lock that was taken elsewhere
        if any(is_aware(run, event, lock) for event in run.events):
            yield from unregistered(run, lock, same)


def locked_twice(run: Run) -> Iterator[str]:
    for events in run.incarnations.values():
        held: list[Row] = []
        for event in events:
            row = event.row
            if event.kind == "lock":
                for other in held:
                    is_another = other["item"] == row["item"] and other["client"] != row["client"]
                    if is_another and "write" in (other["mode"], row["mode"]):
                        yield f"at {event.identity} {row['client']} locks {row['item']}, {other['client']} holds it"
                held.append(row)
            elif event.kind == "unlock":
                same = [other for other in held if all(other[name] == row[name] for name in ("client", "item", "mode"))]
                held = [other for other in held if other is not next(iter(same), None)]
            elif event.kind in ("fail", "stop", "start"):
                held = []


def is_same_lock(one: Event, other: Event) -> bool:
    return (one.row["client"], one.row["item"]) == (other.row["client"], other.row["item"])


def is_aware(run: Run, event: Event, lock: Event) -> bool:
    """Whether something that a surviving process does follows the lock that another site took."""
    survives = event.process != lock.process and run.is_operational(event.identity, lock.group)
    return survives and bool(run.precedes.path(lock, event))


def unregistered(run: Run, lock: Event, same: list[Event]) -> Iterator[str]:
    components = lock.stay.terms.members if lock.stay else run.incarnations
    for identity, events in run.incarnations.items():
        is_registered = identity not in components or identity == lock.identity
        for event in events:
            is_registered |= event in same and bool(run.precedes.path(lock, event))
            told = [send for send in run.sends.get(event.message, ()) if event.kind == "deliver" and is_failure(send)]
            if any(send.row["subject"] == lock.identity for send in told) and not is_registered:
                yield f"{event}, and has no read lock of {lock.row['client']} on {lock.row['item']}"


def collected(run: Run, group: str) -> Iterator[str]:
    """I85-GC, in a complete run: at rest every associative store is empty (4.4)."""
    for identity, events in run.incarnations.items():
        stored = [event.row["counters"]["stored"] for event in events if "stored" in event.row.get("counters", ())]
        if stored and stored[-1] and run.is_operational(identity, group):
            yield f"{identity} still stores {stored[-1]}"


PROPERTIES: dict[str, Callable[[Run, str], Iterator[str]]] = {
    "I85-SITE": site_views,
    "I85-LIVE": sites_at_rest,
    "I85-ATOM": atomic,
    "I85-BCAST": same_label_same_order,
    "I85-OBCAST": ordered_broadcasts,
    "I85-GBCAST": group_broadcasts,
    "I85-FAIL": nothing_after_failure,
    "I85-ADDR": addressed,
    "I85-FLUSH": flushes,
    "I85-LOCK": locks,
    "I85-GC": collected,
}
