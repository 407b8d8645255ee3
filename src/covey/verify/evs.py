"""Extended virtual synchrony (evs-1994, section 2): the properties of the model `evs`.

`reg(c)` is c if c is regular, else the regular configuration that c ends; `com(c)` is reg(c) together with the
transitional configuration that follows it at a process. To stop is to fail, and who starts again has failed. The
services are levels: a `causal` message takes no part in EVS-6, and EVS-7 is about `safe` ones. EVS-1.2, that the
events of one process are totally ordered, holds of every trace that can be read.
"""

from collections import defaultdict

import numpy as np

from covey.verify.both import (
    Found,
    agreement,
    are_among,
    delivered_once,
    in_the_last_installed,
    installed_at_once,
    keys_of,
    of_deliveries,
    of_installations,
    of_merged_rows,
    of_messages,
    of_primary_components,
    of_rows_in_configurations,
    of_sends,
    partial_order,
    primary_continuity,
    primary_order,
    sent_later,
    sent_once_by_its_process,
    told,
    too_late,
)
from covey.verify.group import CAUSAL, NEVER, SAFE, Community, Group, Stay, Violation, places
from covey.verify.kernel import Property
from covey.verify.order import cycle, reached

# ---- basic delivery ----------------------------------------------------------------------------


def totally_ordered_locally(group: Group) -> Found:
    """EVS-1.2: the events of one process are totally ordered: that holds of every trace that can be read."""
    yield from ()


def sent_where_delivered(group: Group) -> Found:
    """EVS-1.3: every delivered message was sent in reg(c), c being the configuration in which it is delivered, and not
    after its own sender had delivered it."""
    sends, deliveries = group.sends, group.deliveries
    was_sent = np.isin(deliveries.message, sends.message)
    regs = group.reg_of(deliveries.config)
    there = are_among(*keys_of((deliveries.message, regs), (sends.message, sends.config)))
    for place in places(~was_sent):
        who, message = told(group, place)
        yield Violation(f"{who} delivers {message}, which nobody sent", (group.event(deliveries, place),))
    for place in places(was_sent & ~there):
        who, message = told(group, place)
        sent = places(sends.message == deliveries.message[place])[0]
        yield Violation(
            f"{group.teller(sends, sent)} sends {message} in {group.named(sends.config[sent])}; "
            f"{who} delivers it in {group.named(deliveries.config[place])}",
            (group.event(sends, sent), group.event(deliveries, place)),
        )
    for place, sent in sent_later(group):
        if there[place]:
            yield from too_late(group, place, sent)


def sent_and_delivered_once(group: Group) -> Found:
    """EVS-1.4: a message is sent once, in a regular configuration, by the process in its id, and delivered at most once
    by each process."""
    yield from sent_once_by_its_process(group)
    yield from delivered_once(group)
    sends = group.sends
    for place in places(group.reg_of(sends.config) != sends.config):
        who, message = group.teller(sends, place), group.message(sends.message[place])
        config = group.named(sends.config[place])
        why = f"{who} sends {message} in the transitional configuration {config}"
        yield Violation(why, (group.event(sends, place),))


# ---- configuration changes ---------------------------------------------------------------------


def resting_together(group: Group) -> Found:
    """EVS-2.1: if a process rests in c for ever, so does every member of c."""
    rests = {stay.name: stay for stay in group.up.values() if stay}
    for name, stay in rests.items():
        for member in sorted(group.members(stay.config)):
            if member not in rests or rests[member].config != stay.config:
                yield Violation(f"{name} rests in {stay.config}, and its member {member} does not", (stay.event,))


def transitional(group: Group) -> Found:
    """EVS-2.5: a transitional configuration is installed directly after the regular one in its `previous`, and only a
    regular one, a fail or a stop ends it; its members are members of both neighbours; processes that install the same
    regular configuration straight after the same regular one went through the same transitional one, all or none."""
    through: dict[tuple[str, str], dict[str, Stay]] = defaultdict(dict)
    for stay in group.all_stays:
        before, after = stay.before, stay.next
        if stay.is_regular:
            if before and before.is_regular:
                through[before.config, stay.config].setdefault("", stay)
            elif before and before.before:
                through[before.before.config, stay.config].setdefault(before.config, stay)
            continue
        if before is None or not before.is_regular or before.config != stay.view.previous:
            where = before.config if before else "nothing"
            why = f"{stay.name} installs {stay.config}, which ends {stay.view.previous}, straight after {where}"
            yield Violation(why, (stay.event,))
        if after and not after.is_regular:
            why = f"{stay.name} installs {after.config} straight after {stay.config}: both are transitional"
            yield Violation(why, (stay.event, after.event))
        for neighbour in filter(None, (before, after)):
            if strangers := stay.view.members - neighbour.view.members:
                why = f"{stay.config} has {', '.join(sorted(strangers))}, which {neighbour.config} beside it has not"
                yield Violation(why, (stay.event, neighbour.event))
    for (one, other), ways in through.items():
        if len(ways) > 1:
            told = ", ".join(f"{stay.name} through {way or 'nothing'}" for way, stay in ways.items())
            yield Violation(f"from {one} to {other} go {told}", tuple(stay.event for stay in ways.values()))


def alone_after_failure(group: Group) -> Found:
    """EVS-2.7: the first configuration that a process installs after a fail is regular and has that process as its only
    member."""
    for stay in group.all_stays:
        if stay.is_after_failure and not (stay.is_regular and stay.view.members == {stay.name}):
            why = f"{stay.name} installs {stay.config} of {', '.join(sorted(stay.view.members))} first after it failed"
            yield Violation(why, (stay.event,))


# ---- self-delivery, atomicity, causality -------------------------------------------------------


def self_delivery(group: Group) -> Found:
    """EVS-3: a process that does not fail in com(c) delivers each message that it sent in c by the time com(c) is over
    for it."""
    sends, deliveries = group.sends, group.deliveries
    bound = np.zeros((len(group.processes), len(group.configs)), dtype=bool)
    for stay in group.all_stays:
        last = stay.last_of_com
        if stay.is_regular and not last.has_failed and (last.end or group.complete):
            bound[stay.who, group.code("config", stay.config)] = True
    regs = group.reg_of(deliveries.config)
    missing = ~are_among(*keys_of((sends.message, sends.who, sends.config), (deliveries.message, deliveries.who, regs)))
    there = sends.config >= 0
    owed = np.zeros(len(sends.who), dtype=bool)
    owed[there] = bound[sends.who[there], sends.config[there]]
    for place in places(owed & missing):
        who, message = group.teller(sends, place), group.message(sends.message[place])
        why = f"{who} sends {message} in {group.named(sends.config[place])}, and never delivers it there"
        yield Violation(why, (group.event(sends, place),))


def atomicity(group: Group) -> Found:
    """EVS-4: two processes that go together from c directly to the same next configuration delivered the same set of
    messages in c."""
    deliveries = group.deliveries
    order = np.lexsort((deliveries.config, deliveries.who))
    who, config = deliveries.who[order], deliveries.config[order]

    def delivered(stay: Stay) -> np.ndarray:
        first, last = np.searchsorted(who, [stay.who, stay.who + 1])
        begin, end = first + np.searchsorted(config[first:last], (code := group.code("config", stay.config), code + 1))
        return np.unique(deliveries.message[order[begin:end]])

    first_with_way: dict[tuple[str, str], tuple[Stay, np.ndarray]] = {}
    for stay in group.all_stays:
        if stay.next is None:
            continue
        mine = delivered(stay)
        other, theirs = first_with_way.setdefault((stay.config, stay.next.config), (stay, mine))
        if not np.array_equal(mine, theirs):
            first = np.setxor1d(mine, theirs)[0]
            message, (has, lacks) = group.message(first), (stay, other) if first in mine else (other, stay)
            why = (
                f"{stay.name} and {other.name} go from {stay.config} to {stay.next.config}; "
                f"{has.name} delivers {message} in {stay.config}, {lacks.name} does not"
            )
            yield Violation(why, (has.event, lacks.event))


def causality(group: Group) -> Found:
    """EVS-5: if send(m, c) precedes send(m', c) and r delivers m' in com(c), then r delivers m in com(c), before m'."""
    for community in group.communities:
        cause, effect = direct_causes(community) if is_plain(group) else all_causes(community)
        late = (community.when[effect] != NEVER) & ~(community.when[cause] < community.when[effect])
        for place, who in zip(*np.nonzero(late), strict=True):
            m, later = community.id(cause[place]), community.id(effect[place])
            name = group.members_named[who]
            yield Violation(
                f"the send of {m} precedes that of {later}; {name} delivers {later} in com({community.name}) "
                f"without or before {m}",
                (community.event(effect[place], int(who)),),
            )


def is_plain(group: Group) -> bool:
    """Whether a process's sends and deliveries in a configuration lie together, once each: then what precedes a send in
    it does so through messages of that configuration alone."""
    searches = (partial_order, sent_where_delivered, sent_and_delivered_once, in_the_last_installed, agreement)
    return all(next(search(group), None) is None for search in searches)


def all_causes(community: Community) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of messages sent in one configuration of which the first precedes the second, by any path."""
    group, sends, first = community.group, community.group.sends, community.sent
    nodes = [(int(sends.process[place]), int(sends.index[place])) for place in first]
    rows = community.row(sends.message[first])
    pairs = [(rows[one], rows[other]) for one, other in reached(group, nodes) if one != other]
    cause, effect = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return cause, effect


def direct_causes(community: Community) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of messages sent in one configuration: the sender of the second had sent the first just before, or has
    delivered it since it sent the one before. The closure of these pairs is the order in which they were sent."""
    sends, deliveries = community.group.sends, community.group.deliveries
    causes: list[np.ndarray] = []
    effects: list[np.ndarray] = []
    heard = np.flatnonzero(np.isin(deliveries.message, community.messages[community.is_sent]))
    for who in np.unique(sends.who[community.sent]):
        mine = community.sent[sends.who[community.sent] == who]
        rows = community.row(sends.message[mine])
        causes.append(rows[:-1])
        effects.append(rows[1:])
        its = heard[deliveries.who[heard] == who]
        following = np.searchsorted(sends.index[mine], deliveries.index[its])
        is_before = following < len(mine)
        causes.append(community.row(deliveries.message[its[is_before]]))
        effects.append(rows[following[is_before]])
    if not causes:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    cause, effect = np.concatenate(causes), np.concatenate(effects)
    return cause[cause != effect], effect[cause != effect]


# ---- total order -------------------------------------------------------------------------------


def logical_time(group: Group) -> Found:
    """EVS-6.1, EVS-6.2: there is a logical time, consistent with precedes, at which all processes deliver the same
    message, and at which all install the same configuration: the graph of EVS-2.3 with, in addition, all deliveries of
    one agreed or safe message merged into one node has no cycle."""
    ordered = group.service[group.deliveries.message] > CAUSAL
    yield from cycle(group, merge_installations=True, merge_deliveries=ordered)


def no_holes(group: Group) -> Found:
    """EVS-6.3: if p delivers m before m', both sent in the regular configuration c, q delivers m' in c' with
    reg(c') = c, and m's sender is a member of c', then q delivers m in com(c)."""
    for community in group.communities:
        ordered = community.is_sent & (community.service > CAUSAL)
        before = np.where(ordered[:, None], community.when, NEVER)
        for config in community.configurations():
            members = [
                who for who, name in enumerate(group.members_named) if name in group.members(group.configs[config])
            ]
            by_members = ordered & np.isin(community.sender, members)
            there = community.delivered_in(config)
            for q in places(there.any(axis=0)):
                mine = ordered & there[:, q]
                owed = by_members & ~community.delivered[:, q]
                if not (mine.any() and owed.any()):
                    continue
                reach = community.again[mine].max(axis=0)
                early = owed[:, None] & (before < reach)
                for row, p in zip(*np.nonzero(early), strict=True):
                    later = places(mine & (community.again[:, p] == reach[p]))[0]
                    name, other = group.members_named[q], group.members_named[p]
                    m, after = community.id(row), community.id(later)
                    where = group.configs[config]
                    why = f"{other} delivers {m} before {after}; {name} delivers {after} in {where}, and never {m}, "
                    why += f"whose sender is a member of {where}"
                    events = community.event(row, int(p)), community.event(later, int(p))
                    yield Violation(why, (*events, community.event(later, int(q))))


# ---- safe delivery -----------------------------------------------------------------------------


def safe_everywhere(group: Group) -> Found:
    """EVS-7.1: a safe message delivered by anyone in c is delivered in com(c) by every member of c that does not fail
    there (judged once com(c) is over at that member)."""
    for community in group.communities:
        safe = community.service == SAFE
        for config in community.configurations():
            by = safe[:, None] & community.delivered_in(config)
            somewhere = by.any(axis=1)
            for member in sorted(group.members(group.configs[config])):
                who = group.find(member)
                missing = somewhere if who is None else somewhere & ~community.delivered[:, who]
                if missing.any() and must_have_delivered(group, who, community.name):
                    for row in places(missing):
                        p = places(by[row])[0]
                        yield Violation(
                            f"{group.members_named[p]} delivers {community.id(row)} as safe in "
                            f"{group.configs[config]}, and its member {member} does not",
                            (community.event(row, p),),
                        )


def must_have_delivered(group: Group, who: int | None, c: str) -> bool:
    """Whether com(c), c a regular configuration, is over at a member that did not fail there."""
    stays = [] if who is None else group.stays.get(who, [])
    there = [stay for stay in stays if group.reg(stay.config) == c]
    if there:
        return not there[-1].has_failed and (there[-1].end == "config" or group.complete)
    is_past = any(stay.is_regular and stay.view.seq > group.views[c].seq for stay in stays if c in group.views)
    return is_past or group.complete or bool(stays and stays[-1].has_failed)


def safe_when_all_are_there(group: Group) -> Found:
    """EVS-7.2: a safe message delivered in a regular configuration: all its members installed that configuration."""
    for community in group.communities:
        by = (community.service == SAFE)[:, None] & community.delivered_in(community.config)
        if not by.any():
            continue
        there = {stay.name for stay in group.stays_in.get(community.name, ())}
        for member in sorted(group.members(community.name) - there):
            for row in places(by.any(axis=1)):
                p = places(by[row])[0]
                why = f"{group.members_named[p]} delivers {community.id(row)} as safe in {community.name}, "
                why += f"which its member {member} never installs"
                yield Violation(why, (community.event(row, p),))


# ---- liveness ----------------------------------------------------------------------------------


def one_configuration(group: Group) -> Found:
    """EVS-LIVE: all processes that are up rest in one configuration."""
    rests = {group.members_named[who]: stay.config if stay else "nothing" for who, stay in group.up.items()}
    if len(set(rests.values())) > 1 or "nothing" in rests.values():
        told = ", ".join(f"{name} in {config}" for name, config in sorted(rests.items()))
        yield Violation(f"what is up rests apart: {told}", tuple(stay.event for stay in group.up.values() if stay))


PROPERTIES = [
    Property(("EVS-1.1",), partial_order, of_sends),
    Property(("EVS-1.2",), totally_ordered_locally, of_messages),
    Property(("EVS-1.3",), sent_where_delivered, of_deliveries),
    Property(("EVS-1.4",), sent_and_delivered_once, of_sends),
    Property(("EVS-2.1",), resting_together, of_installations, "complete"),
    Property(("EVS-2.2",), in_the_last_installed, of_rows_in_configurations),
    Property(("EVS-2.3", "EVS-2.4"), installed_at_once, of_installations),
    Property(("EVS-2.5",), transitional, of_installations),
    Property(("EVS-2.6",), agreement, of_installations),
    Property(("EVS-2.7",), alone_after_failure, of_installations),
    Property(("EVS-3",), self_delivery, of_sends),
    Property(("EVS-4",), atomicity, of_deliveries),
    Property(("EVS-5",), causality, of_deliveries),
    Property(("EVS-6.1", "EVS-6.2"), logical_time, of_merged_rows),
    Property(("EVS-6.3",), no_holes, of_deliveries),
    Property(("EVS-7.1",), safe_everywhere, of_deliveries),
    Property(("EVS-7.2",), safe_when_all_are_there, of_deliveries),
    Property(("EVS-LIVE",), one_configuration, of_installations, "healed"),
    Property(("PC-1",), primary_order, of_primary_components),
    Property(("PC-2",), primary_continuity, of_primary_components),
]
