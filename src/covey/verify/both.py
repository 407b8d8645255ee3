"""What the models `evs` and `vs` both demand, of configurations and of views, and on how much each is judged."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from covey.verify.group import Group, Violation, places
from covey.verify.order import cycle, precedes

Found = Iterator[Violation]

# ---- what there is to check ----------------------------------------------------------------------


def of_sends(group: Group) -> int:
    return len(group.sends.who)


def of_deliveries(group: Group) -> int:
    return len(group.deliveries.who)


def of_messages(group: Group) -> int:
    return of_sends(group) + of_deliveries(group)


def of_rows_in_configurations(group: Group) -> int:
    ends = sum(turn.event in ("fail", "stop") for turns in group.turns.values() for turn in turns)
    return of_messages(group) + ends


def of_installations(group: Group) -> int:
    return len(group.all_stays)


def of_merged_rows(group: Group) -> int:
    return of_deliveries(group) + of_installations(group)


def of_primary_components(group: Group) -> int:
    return len(primary_components(group))


# ---- messages ------------------------------------------------------------------------------------


def partial_order(group: Group) -> Found:
    """EVS-1.1: precedes is a partial order: local order plus send → deliver has no cycle."""
    yield from cycle(group, merge_installations=False)


def not_sent(group: Group) -> Found:
    """No effect without its cause: what is delivered was sent, and not after its own sender had delivered it."""
    deliveries = group.deliveries
    for place in places(~np.isin(deliveries.message, group.sends.message)):
        who, message = told(group, place)
        yield Violation(f"{who} delivers {message}, which nobody sent", (group.event(deliveries, place),))
    for place, sent in sent_later(group):
        yield from too_late(group, place, sent)


def too_late(group: Group, place: int, sent: int) -> Found:
    """A delivery that comes before that send."""
    who, message = told(group, place)
    events = group.event(group.deliveries, place), group.event(group.sends, sent)
    yield Violation(f"{who} delivers {message}, and sends it only then", events)


def sent_later(group: Group) -> Iterator[tuple[int, int]]:
    """Deliveries, each with a send of the same message by the same process that comes later."""
    sends, deliveries = group.sends, group.deliveries
    if not len(sends.who):
        return
    mine, ours = keys_of((sends.message, sends.who), (deliveries.message, deliveries.who))
    order = np.argsort(mine, kind="stable")
    last = order[np.searchsorted(mine[order], ours, side="right") - 1]
    is_own = mine[last] == ours
    for place in places(is_own & (sends.index[last] > deliveries.index)):
        yield place, int(last[place])


def sent_once_by_its_process(group: Group) -> Found:
    """A message is sent once, by the process in its id."""
    sends = group.sends
    origin, incarnation = group.origins[sends.message].T
    for place in places((origin != sends.process) | (incarnation != sends.incarnation)):
        who, message = group.teller(sends, place), group.message(sends.message[place])
        yield Violation(f"{who} sends {message}, whose id names another",
                        (group.event(sends, place),))  # fmt: skip
    for first, again in repeated(sends.message):
        message = group.message(sends.message[again])
        yield Violation(f"{message} is sent twice", (group.event(sends, first), group.event(sends, again)))


def delivered_once(group: Group) -> Found:
    """Each process delivers a message at most once."""
    deliveries = group.deliveries
    (delivered,) = keys_of((deliveries.message, deliveries.who))
    for first, again in repeated(delivered):
        who, message = told(group, again)
        events = group.event(deliveries, first), group.event(deliveries, again)
        yield Violation(f"{who} delivers {message} twice", events)


# ---- configurations ------------------------------------------------------------------------------


def in_the_last_installed(group: Group) -> Found:
    """EVS-2.2: every send, deliver, fail and stop happens in the configuration that its process installed last, with no
    fail, stop or start in between."""
    for verb, columns in (("sends", group.sends), ("delivers", group.deliveries)):
        for place in places((columns.config != columns.inside) | (columns.inside < 0)):
            who, message = group.teller(columns, place), group.message(columns.message[place])
            named, inside = group.named(columns.config[place]), group.named(columns.inside[place])
            why = f"{who} {verb} {message} in {named}, and what it has installed last is {inside}"
            yield Violation(why, (group.event(columns, place),))
    for process, turns in group.turns.items():
        before = ""
        for turn in turns:
            event = group.processes[process], turn.index
            if turn.event in ("fail", "stop"):
                if turn.stay is None and not turn.config:
                    if before in ("fail", "stop"):
                        yield Violation(f"{event[0]} {turn.event}s when it has failed", (event,))
                elif turn.stay is None or (turn.config and turn.config != turn.stay.config):
                    inside = turn.stay.config if turn.stay else "no configuration"
                    why = f"{event[0]} {turn.event}s in {turn.config}, and what it has installed last is {inside}"
                    yield Violation(why, (event,))
            before = turn.event


def installed_at_once(group: Group) -> Found:
    """EVS-2.3, EVS-2.4: what follows (precedes) one process's installation of c follows (precedes) every process's: the
    graph of EVS-1.1, with all installations of one configuration merged into one node, has no cycle."""
    yield from cycle(group, merge_installations=True)


def agreement(group: Group) -> Found:
    """EVS-2.6: all installations of one configuration agree on kind, members, seq, primary and previous; a process
    installs only configurations that contain it, with growing seq."""
    for config, stays in group.stays_in.items():
        for stay in stays:
            if stay.view != stays[0].view:
                why = f"{stays[0].name} and {stay.name} install {config}, and do not agree on what it is"
                yield Violation(why, (stays[0].event, stay.event))
            if stay.name not in stay.view.members:
                yield Violation(f"{stay.name} installs {config}, of which it is no member", (stay.event,))
    for stays in group.stays.values():
        for one, other in pairwise(stays):
            if one.view.seq >= other.view.seq:
                why = f"{one.name} installs {other.config}, number {other.view.seq}, after number {one.view.seq}"
                yield Violation(why, (one.event, other.event))


# ---- primary components (evs-1994, 2.2) ----------------------------------------------------------


def primary_order(group: Group) -> Found:
    """PC-1: primary components, in the order of seq, are totally ordered by precedes (installations merged)."""
    components = primary_components(group)
    for one, other in pairwise(components):
        is_tie = group.views[one].seq == group.views[other].seq
        if not (precedes(group, one, other) or (is_tie and precedes(group, other, one))):
            why = f"the primary component {one} does not precede the next one, {other}: nothing leads from it there"
            yield Violation(why, (group.stays_in[one][0].event, group.stays_in[other][0].event))


def primary_continuity(group: Group) -> Found:
    """PC-2: primary components consecutive in the order of seq share a member."""
    for one, other in pairwise(primary_components(group)):
        if not processes_of(group, one) & processes_of(group, other):
            why = f"the primary component {other} has no member of the one before, {one}"
            yield Violation(why, (group.stays_in[one][0].event, group.stays_in[other][0].event))


def processes_of(group: Group, config: str) -> set[str]:
    """The members as processes: one that has come back is the same one."""
    members = group.members(config)
    return {name.rpartition("/")[0] for name in members} if group.incarnations else set(members)


def primary_components(group: Group) -> list[str]:
    """In the order of seq."""
    primary = [config for config, view in group.views.items() if view.primary and view.kind == "regular"]
    return sorted(primary, key=lambda config: (group.views[config].seq, config))


# ---- tables of numbers ---------------------------------------------------------------------------


def keys_of(*columns: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Rows of small numbers as numbers, comparable between several sets of columns."""
    sizes = [int(max((part.max(initial=-1) for part in parts), default=-1)) + 2 for parts in zip(*columns, strict=True)]
    keys = []
    for each in columns:
        key = np.zeros(len(each[0]), dtype=np.int64)
        for part, size in zip(each, sizes, strict=True):
            key = key * size + part + 1
        keys.append(key)
    return keys


def are_among(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which keys are among the others."""
    return np.isin(keys, others)


def repeated(keys: np.ndarray) -> Iterator[tuple[int, int]]:
    """The places of a key that stands there twice: the first, and each later one."""
    order = np.argsort(keys, kind="stable")
    first = 0
    for place in range(1, len(order)) if len(np.unique(keys)) < len(keys) else ():
        if keys[order[place]] != keys[order[first]]:
            first = place
        else:
            yield int(order[first]), int(order[place])


def told(group: Group, place: int) -> tuple[str, str]:
    """Who delivers what."""
    deliveries = group.deliveries
    return group.teller(deliveries, place), group.message(int(deliveries.message[place]))
