"""Virtual synchrony, as the filter lets it through (evs-1994, sections 4 and 5): the properties of the model `vs`.

Members are incarnations. One *survives* a view when it installs the next one, or rests in it in a complete run; one
that fails, stops or is left behind does not.
"""

import numpy as np

from covey.verify.both import (
    Found,
    agreement,
    delivered_once,
    in_the_last_installed,
    installed_at_once,
    not_sent,
    of_installations,
    of_merged_rows,
    of_messages,
    of_rows_in_configurations,
    of_sends,
    partial_order,
    primary_continuity,
    primary_order,
    sent_once_by_its_process,
)
from covey.verify.group import CAUSAL, Group, Violation, places
from covey.verify.kernel import Property
from covey.verify.order import cycle


def no_effect_without_cause(group: Group) -> Found:
    """VS-C1: the history is closed under precedes: no effect without its cause; a message is sent once, by the process
    in its id, and each process delivers it at most once."""
    yield from not_sent(group)
    yield from sent_once_by_its_process(group)
    yield from delivered_once(group)


def delivered_by_some(group: Group) -> Found:
    """VS-C2: every message sent is delivered by some member of its view, unless its sender did not survive that
    view."""
    sends, deliveries = group.sends, group.deliveries
    survivors = surviving(group)
    for place in range(len(sends.who)):
        config = group.named(sends.config[place])
        if int(sends.who[place]) not in survivors.get(config, ()):
            continue
        by = {group.members_named[who] for who in deliveries.who[deliveries.message == sends.message[place]]}
        if not by & group.members(config):
            who, message = group.teller(sends, place), group.message(sends.message[place])
            why = f"{who} sends {message} in {config} and survives it, and no member of it delivers that"
            yield Violation(why, (group.event(sends, place),))


def delivered_by_all(group: Group) -> Found:
    """VS-C3: a message delivered or sent by a member that survives the view is delivered by all that survive it."""
    sends = group.sends
    survivors = surviving(group)
    for community in group.communities:
        those = survivors.get(community.name, [])
        delivered = community.delivered_in(community.config)[:, those]
        due = np.array(delivered.any(axis=1))
        mine = (sends.config == community.config) & np.isin(sends.who, those)
        due[community.row(sends.message[mine])] = True
        for row, column in zip(*np.nonzero(due[:, None] & ~delivered), strict=True):
            member, message = group.members_named[those[column]], community.id(row)
            why = f"{message} is sent or delivered by one that survives {community.name}; {member} survives it, too, "
            why += "and does not deliver it"
            has = [community.event(row, who) for at, who in enumerate(those) if delivered[row, at]]
            yield Violation(why, tuple(has[:1]))


def surviving(group: Group) -> dict[str, list[int]]:
    """Of each view those of whom it is known that they survive it.

    Where some have gone on, who rests in the view is left behind.
    """
    survivors = {}
    for config, stays in group.stays_in.items():
        gone_on = [stay.who for stay in stays if stay.end == "config"]
        at_rest = [stay.who for stay in stays if not stay.end and group.complete]
        survivors[config] = gone_on or at_rest
    return survivors


def global_time(group: Group) -> Found:
    """VS-L1, VS-L2: a global time respects causality, and events of one process have distinct times: local order plus
    send → deliver has no cycle."""
    yield from partial_order(group)


def views_at_one_time(group: Group) -> Found:
    """VS-L3: all members see a view at the same logical time (views merged: no cycle), and agree on it."""
    yield from installed_at_once(group)
    yield from agreement(group)


def in_one_view(group: Group) -> Found:
    """VS-L4: a message is delivered in the same view everywhere, the one it was sent in, and everything happens in the
    view that its process installed last, with no fail, stop or start in between."""
    sends, deliveries = group.sends, group.deliveries
    for message in np.unique(deliveries.message):
        there = deliveries.message == message
        views = np.unique(sends.config[sends.message == message])
        if not len(views):
            views = deliveries.config[there][:1]
        for place in places(there & ~np.isin(deliveries.config, views)):
            who, config = group.teller(deliveries, place), group.named(deliveries.config[place])
            why = f"{who} delivers {group.message(int(message))} in {config}, not in {group.named(views[0])}"
            yield Violation(why, (group.event(deliveries, place),))
    yield from in_the_last_installed(group)


def delivered_at_one_time(group: Group) -> Found:
    """VS-L5: an agreed or safe message is delivered at the same logical time everywhere (deliveries by surviving
    members merged as well: no cycle)."""
    deliveries = group.deliveries
    survivors = {(group.code("config", config), who) for config, those in surviving(group).items() for who in those}
    pairs = zip(deliveries.config.tolist(), deliveries.who.tolist(), strict=True)
    survives = np.array([pair in survivors for pair in pairs], dtype=bool)
    ordered = group.service[deliveries.message] > CAUSAL
    yield from cycle(group, merge_installations=True, merge_deliveries=survives & ordered)


def primary_views(group: Group) -> Found:
    """VS-F1: only primary views send or deliver, and they satisfy PC-1 and PC-2."""
    used = np.unique(np.concatenate([group.sends.config, group.deliveries.config]))
    for config in (group.configs[code] for code in used if code >= 0):
        for stay in group.stays_in.get(config, ()):
            if stay.view.primary is not True:
                why = f"something is sent or delivered in {config}, which {stay.name} does not install as primary"
                yield Violation(why, (stay.event,))
    yield from primary_order(group)
    yield from primary_continuity(group)


def joined_one_by_one(group: Group) -> Found:
    """VS-F2: from one view to the next at one incarnation at most one member joins; members may leave in the same step;
    the first view of an incarnation is free."""
    for stay in group.all_stays:
        joined = stay.view.members - stay.before.view.members if stay.before else frozenset()
        if len(joined) > 1:
            why = f"{stay.name} sees {', '.join(sorted(joined))} join at once, in {stay.config}"
            yield Violation(why, (stay.event,))


def gone_for_good(group: Group) -> Found:
    """VS-F3: after a process is seen to leave, nothing more is delivered from that incarnation of it; one that is
    merged back has a new one."""
    yield from _delivered_after_leaving(group)
    newest: dict[str, int] = {}
    before: frozenset[str] = frozenset()
    for config, view in sorted(group.views.items(), key=lambda item: (item[1].seq, item[0])):
        for member in before - view.members:
            name, incarnation = split(member)
            newest[name] = max(incarnation, newest.get(name, 0))
        for member in sorted(view.members):
            name, incarnation = split(member)
            if incarnation <= newest.get(name, 0):
                why = f"{config} has {member}, and a view before had lost {name}/{newest[name]}"
                yield Violation(why, (group.stays_in[config][0].event,))
        before = view.members


def _delivered_after_leaving(group: Group) -> Found:
    deliveries = group.deliveries
    origins = [f"{group.processes[one]}/{other}" for one, other in group.origins.tolist()]
    for process, turns in group.turns.items():
        views = [turn for turn in turns if turn.event == "config" and turn.config]
        mine = np.flatnonzero(deliveries.process == process)
        if not views or not len(mine):
            continue
        left: set[str] = set()
        gone = [frozenset(left)]
        members: frozenset[str] = frozenset()
        for turn in views:
            left |= members - group.members(turn.config or "")
            members = group.members(turn.config or "")
            gone.append(frozenset(left))
        begins = np.array([turn.index for turn in views], dtype=np.int64)
        for place, at in zip(mine.tolist(), np.searchsorted(begins, deliveries.index[mine]), strict=True):
            if (origin := origins[int(deliveries.message[place])]) in gone[at]:
                message = group.message(int(deliveries.message[place]))
                why = f"{group.teller(deliveries, place)} delivers {message} after it has seen {origin} leave"
                yield Violation(why, (group.event(deliveries, place),))


def split(member: str) -> tuple[str, int]:
    name, _, incarnation = member.rpartition("/")
    return name, int(incarnation) if incarnation.isdigit() else 0


PROPERTIES = [
    Property(("VS-C1",), no_effect_without_cause, of_messages),
    Property(("VS-C2",), delivered_by_some, of_sends, "complete"),
    Property(("VS-C3",), delivered_by_all, of_messages),
    Property(("VS-L1", "VS-L2"), global_time, of_messages),
    Property(("VS-L3",), views_at_one_time, of_installations),
    Property(("VS-L4",), in_one_view, of_rows_in_configurations),
    Property(("VS-L5",), delivered_at_one_time, of_merged_rows),
    Property(("VS-F1",), primary_views, of_installations),
    Property(("VS-F2",), joined_one_by_one, of_installations),
    Property(("VS-F3",), gone_for_good, of_installations),
]
