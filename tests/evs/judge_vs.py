"""The properties of model `vs`: virtual synchrony, as the filter lets it through (evs-1994, sections 4 and 5).

Members are incarnations. One *survives* a view when it installs the next one, or rests in it in a complete run; one
that fails, stops or is left behind does not.
"""

from collections.abc import Callable, Iterator

from tests.evs.history import Event, History, installation, origin
from tests.evs.judge_both import (
    agreement,
    cycle,
    delivered_once,
    in_the_last_installed,
    is_later,
    is_ordered,
    primary_continuity,
    primary_order,
    sent_by_its_process,
    sent_once,
    unsent,
)


def no_effect_without_cause(history: History) -> Iterator[str]:
    """VS-C1: the history is closed under precedes: what is delivered was sent, once, by the process in its id, and not
    after its own sender had delivered it; each delivers it at most once."""
    for message, deliveries in history.deliveries.items():
        if message not in history.sends:
            yield unsent(deliveries[0])
        for delivery in deliveries:
            if any(is_later(send, delivery) for send in history.sends.get(message, ())):
                yield f"{delivery} before it is sent"
    yield from sent_by_its_process(history)
    yield from sent_once(history)
    yield from delivered_once(history)


def delivered_by_some(history: History) -> Iterator[str]:
    """VS-C2, in a complete run: every message sent is delivered by some member of its view, unless its sender did not
    survive that view."""
    if not history.complete:
        return
    survivors = surviving(history)
    for message, sends in history.sends.items():
        by = {delivery.who for delivery in history.deliveries.get(message, ())}
        for send in sends:
            if send.who in survivors.get(send.config, ()) and not by & history.members(send.config):
                yield f"{send} in {send.config} and survives it, and no member of it delivers that"


def delivered_by_all(history: History) -> Iterator[str]:
    """VS-C3: a message delivered or sent by a member that survives the view is delivered by all that survive it."""
    for config, survivors in surviving(history).items():
        delivered = {who: set(history.delivered.get((who, config), ())) for who in survivors}
        due = {
            message: who
            for who in survivors
            for message in [*history.sent.get((who, config), ()), *history.delivered.get((who, config), ())]
        }
        for message, who in due.items():
            for other in survivors:
                if message not in delivered[other]:
                    yield f"{who} sends or delivers {message} in {config}, and {other}, which survives it, does not"


def surviving(history: History) -> dict[str, list[str]]:
    """Of each view those of whom it is known that they survive it.

    Where some have gone on, who rests in the view is left behind.
    """
    survivors = {}
    for config, stays in history.stays_in.items():
        gone_on = [stay.who for stay in stays if stay.end == "config"]
        at_rest = [stay.who for stay in stays if not stay.end and history.complete]
        survivors[config] = gone_on or at_rest
    return survivors


def global_time(history: History) -> Iterator[str]:
    """VS-L1, VS-L2: a global time respects causality, and events of one process have distinct times: local order plus
    send → deliver has no cycle."""
    yield from cycle(history.precedes)


def views_at_one_time(history: History) -> Iterator[str]:
    """VS-L3: all members see a view at the same logical time (views merged: no cycle), and agree on it; a process
    installs only views that contain it, with growing seq."""
    yield from cycle(history.precedes_by_view)
    yield from agreement(history)


def in_one_view(history: History) -> Iterator[str]:
    """VS-L4: a message is delivered in the same view everywhere, the one it was sent in; everything happens in the view
    that its process installed last, with no fail, stop or start in between."""
    for message, deliveries in history.deliveries.items():
        sent_in = {send.config for send in history.sends.get(message, deliveries[:1])}
        for delivery in deliveries:
            if delivery.config not in sent_in:
                yield f"{delivery} in {delivery.config}, not in {' or '.join(sorted(sent_in))}"
    yield from in_the_last_installed(history)


def delivered_at_one_time(history: History) -> Iterator[str]:
    """VS-L5: an agreed or safe message is delivered at the same logical time everywhere (with its deliveries by those
    that survive merged as well: no cycle)."""
    survivors = {config: set(those) for config, those in surviving(history).items()}

    def node(event: Event) -> object:
        if event.kind == "config":
            return installation(event.config)
        is_merged = event.kind == "deliver" and event.who in survivors.get(event.config, ())
        return f"the delivery of {event.message}" if is_merged and is_ordered(history, event.message) else event

    yield from cycle(history.graph(node))


def primary_views(history: History) -> Iterator[str]:
    """VS-F1: only primary views send or deliver, and they satisfy PC-1 and PC-2."""
    for config in {event.config: None for event in history.events if event.message}:
        for stay in history.stays_in.get(config, ()):
            if stay.view.primary is not True:
                yield f"something is sent or delivered in {config}, which {stay.who} does not install as primary"
    yield from primary_order(history)
    yield from primary_continuity(history)


def joined_one_by_one(history: History) -> Iterator[str]:
    """VS-F2: from one view to the next at one incarnation at most one member joins; members may leave in the same step;
    the first view of an incarnation is free."""
    for stay in history.all_stays:
        joined = stay.view.members - stay.before.view.members if stay.before else ()
        if len(joined) > 1:
            yield f"{stay.who} sees {', '.join(sorted(joined))} join at once, in {stay.config}"


def gone_for_good(history: History) -> Iterator[str]:
    """VS-F3: after a process is seen to leave, nothing more is delivered from that incarnation of it; one that is
    merged back has a new one."""
    for events in history.processes.values():
        left: set[str] = set()
        members: frozenset[str] = frozenset()
        for event in events:
            if event.kind == "config":
                left |= members - history.members(event.config)
                members = history.members(event.config)
            elif event.kind == "deliver" and origin(event.message) in left:
                yield f"{event} after it has seen {origin(event.message)} leave"
    newest: dict[str, int] = {}
    before: frozenset[str] = frozenset()
    for config, view in sorted(history.views.items(), key=lambda item: (item[1].seq, item[0])):
        for member in before - view.members:
            newest[origin(member)] = max(incarnation(member), newest.get(origin(member), 0))
        for member in sorted(view.members):
            if incarnation(member) <= newest.get(origin(member), 0):
                yield f"{config} has {member}, and a view before had lost {origin(member)}/{newest[origin(member)]}"
        before = view.members


def incarnation(member: str) -> int:
    return int(member.rpartition("/")[2])


PROPERTIES: list[tuple[tuple[str, ...], Callable[[History], Iterator[str]]]] = [
    (("VS-C1",), no_effect_without_cause),
    (("VS-C2",), delivered_by_some),
    (("VS-C3",), delivered_by_all),
    (("VS-L1", "VS-L2"), global_time),
    (("VS-L3",), views_at_one_time),
    (("VS-L4",), in_one_view),
    (("VS-L5",), delivered_at_one_time),
    (("VS-F1",), primary_views),
    (("VS-F2",), joined_one_by_one),
    (("VS-F3",), gone_for_good),
]
