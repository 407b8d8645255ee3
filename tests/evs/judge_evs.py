"""The properties of model `evs`: extended virtual synchrony (evs-1994, 2.1).

`reg(c)` is c if c is regular, else the regular configuration that c ends; `com(c)` is reg(c) together with the
transitional configuration that follows it at a process. To stop is to fail, and who starts again has failed. EVS-1.2,
that the events of one process are totally ordered, holds of every trace that can be read.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.evs.history import Event, History, Stay, installation
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

# ---- basic delivery ----------------------------------------------------------------------------


def partial_order(history: History) -> Iterator[str]:
    """EVS-1.1: precedes is a partial order: local order plus send → deliver has no cycle."""
    yield from cycle(history.precedes)


def sent_where_delivered(history: History) -> Iterator[str]:
    """EVS-1.3: what is delivered in c was sent in reg(c), and not after its own sender had delivered it."""
    for message, deliveries in history.deliveries.items():
        sends = history.sends.get(message, [])
        for delivery in deliveries:
            if history.reg(delivery.config) not in {send.config for send in sends}:
                where = " and ".join(send.config for send in sends)
                yield f"{delivery} in {delivery.config}, and it was sent in {where}" if sends else unsent(delivery)
            elif any(is_later(send, delivery) for send in sends):
                yield f"{delivery} before it is sent"


def sent_and_delivered_once(history: History) -> Iterator[str]:
    """EVS-1.4: a message is sent once, in a regular configuration, by the process in its id; each delivers it once."""
    yield from sent_by_its_process(history)
    yield from sent_once(history)
    yield from delivered_once(history)
    for sends in history.sends.values():
        for send in sends:
            if history.reg(send.config) != send.config:
                yield f"{send} in the transitional configuration {send.config}"


# ---- configuration changes ---------------------------------------------------------------------


def resting_together(history: History) -> Iterator[str]:
    """EVS-2.1, in a complete run: if a process rests in c, so does every member of c."""
    if not history.complete:
        return
    rests = {who: stay.config for who, stay in history.up.items() if stay}
    for who, config in rests.items():
        for member in sorted(history.members(config)):
            if rests.get(member) != config:
                yield f"{who} rests in {config}, and {member} in {rests.get(member, 'none')}"


def installed_at_once(history: History) -> Iterator[str]:
    """EVS-2.3, EVS-2.4: what follows (precedes) one process's installation of c follows (precedes) every process's:
    precedes, with all installations of one configuration merged, has no cycle."""
    yield from cycle(history.precedes_by_view)


def transitional(history: History) -> Iterator[str]:
    """EVS-2.5: a transitional configuration is installed directly after the regular one in its `previous`, and only a
    regular one, a fail or a stop ends it; its members are members of both neighbours. All that install the same regular
    configuration straight after the same regular one went through the same transitional one, or all through none.
    """
    through: dict[tuple[str, str], dict[str, Stay]] = defaultdict(dict)
    for stay in history.all_stays:
        before, after = stay.before, stay.next
        if stay.is_regular:
            if before and before.is_regular:
                through[before.config, stay.config].setdefault("", stay)
            elif before and before.before:
                through[before.before.config, stay.config].setdefault(before.config, stay)
            continue
        if before is None or not before.is_regular or before.config != stay.view.previous:
            where = before.config if before else "nothing"
            yield f"{stay.who} installs {stay.config}, which ends {stay.view.previous}, straight after {where}"
        if after and not after.is_regular:
            yield f"{stay.who} installs {after.config} straight after {stay.config}: both are transitional"
        for neighbour in filter(None, (before, after)):
            if strangers := stay.view.members - neighbour.view.members:
                yield f"{stay.config} has {', '.join(sorted(strangers))}, which {neighbour.config} beside it has not"
    for (one, other), ways in through.items():
        if len(ways) > 1:
            told = ", ".join(f"{stay.who} through {way or 'nothing'}" for way, stay in ways.items())
            yield f"from {one} to {other} go {told}"


def alone_after_failure(history: History) -> Iterator[str]:
    """EVS-2.7: the first configuration that a process installs after a fail is regular, of that process alone."""
    for stay in history.all_stays:
        if stay.is_after_failure and not (stay.is_regular and stay.view.members == {stay.who}):
            yield f"{stay.who} installs {stay.config} of {', '.join(sorted(stay.view.members))} first after it failed"


# ---- self-delivery, atomicity, causality -------------------------------------------------------


def self_delivery(history: History) -> Iterator[str]:
    """EVS-3: a process that does not fail in com(c) delivers each message that it sent in c by the time com(c) is
    over for it, in a complete run the one in which it rests, too."""
    for stay in history.all_stays:
        last = history.last_of_com(stay)
        if not stay.is_regular or last.has_failed or not (last.end or history.complete):
            continue
        delivered = set(history.delivered_in_com.get((stay.who, stay.config), ()))
        for message in history.sent.get((stay.who, stay.config), ()):
            if message not in delivered:
                yield f"{stay.who} sends {message} in {stay.config} and leaves or rests without having delivered it"


def atomicity(history: History) -> Iterator[str]:
    """EVS-4: two processes that go together from c directly to the same next configuration delivered the same set of
    messages in c."""
    first_with_way: dict[tuple[str, str], Stay] = {}
    for stay in history.all_stays:
        if stay.next is None:
            continue
        other = first_with_way.setdefault((stay.config, stay.next.config), stay)
        one_set, other_set = (set(history.delivered.get((each.who, each.config), ())) for each in (stay, other))
        if one_set != other_set:
            difference = ", ".join(sorted(one_set ^ other_set))
            yield f"{stay.who} and {other.who} go from {stay.config} to {stay.next.config}, one without {difference}"


def causality(history: History) -> Iterator[str]:
    """EVS-5: if send(m, c) precedes send(m', c) and r delivers m' in com(c), r delivers m in com(c), before m'."""
    bits = Bits(history)
    marks = {sends[0]: bits.of[message] for message, sends in history.sends.items()}
    before = history.precedes.marks_before(marks)
    for (who, c), messages in history.delivered_in_com.items():
        delivered = 0
        for message in messages:
            if bits.of.get(message, 0) & bits.sent_in[c]:
                causes = before[history.sends[message][0]] & bits.sent_in[c] & ~bits.of[message]
                for cause in bits.messages(causes & ~delivered):
                    yield f"{who} delivers {message} in com({c}) without or before its cause {cause}"
            delivered |= bits.of.get(message, 0)


class Bits:
    """Sets of the messages that were sent, as integers: a bit for each message."""

    def __init__(self, history: History) -> None:
        self.of = {message: 1 << place for place, message in enumerate(history.sends)}
        self.sent_in: dict[str, int] = defaultdict(int)
        """By configuration."""
        self.ordered = 0
        """Those that are not causal."""
        self.sent_by: dict[str, int] = defaultdict(int)
        """By process."""
        for message, sends in history.sends.items():
            self.sent_in[sends[0].config] |= self.of[message]
            self.sent_by[sends[0].who] |= self.of[message]
            if is_ordered(history, message):
                self.ordered |= self.of[message]

    def messages(self, bits: int) -> list[str]:
        return [message for message, bit in self.of.items() if bits & bit] if bits else []


# ---- total order -------------------------------------------------------------------------------


def logical_time(history: History) -> Iterator[str]:
    """EVS-6.1, EVS-6.2: there is a logical time, consistent with precedes, at which all deliver the same message, and
    at which all install the same configuration: precedes, with all installations of one configuration merged, and all
    deliveries of one agreed or safe message, has no cycle."""

    def node(event: Event) -> object:
        if event.kind == "config":
            return installation(event.config)
        if event.kind == "deliver" and is_ordered(history, event.message):
            return f"the delivery of {event.message}"
        return event

    yield from cycle(history.graph(node))


def no_holes(history: History) -> Iterator[str]:
    """EVS-6.3: if p delivers m before m', both agreed or safe and sent in the regular configuration c, q delivers m' in
    c' with reg(c') = c, and m's sender is a member of c', then q delivers m in com(c)."""
    bits = Bits(history)
    earlier: dict[str, int] = defaultdict(int)
    delivered: dict[tuple[str, str], int] = {}
    for (who, c), messages in history.delivered_in_com.items():
        so_far = 0
        for message in messages:
            earlier[message] |= so_far & bits.sent_in[c]
            so_far |= bits.of.get(message, 0)
        delivered[who, c] = so_far
    for (who, config), messages in history.delivered.items():
        c = history.reg(config)
        by_members = 0
        for member in history.members(config):
            by_members |= bits.sent_by[member]
        obliged = bits.ordered & bits.sent_in[c] & by_members & ~delivered[who, c]
        for message in messages:
            if bits.of.get(message, 0) & bits.ordered & bits.sent_in[c]:
                for missing in bits.messages(obliged & earlier[message]):
                    yield f"{who} delivers {message} in {config}, and never {missing}, which others deliver before"


# ---- safe delivery -----------------------------------------------------------------------------


def safe_everywhere(history: History) -> Iterator[str]:
    """EVS-7.1: a safe message delivered by anyone in c is delivered in com(c) by every member of c that does not fail
    there (judged once com(c) is over at that member)."""
    for message, config, delivery in safe_deliveries(history):
        c = history.reg(config)
        for member in sorted(history.members(config)):
            if message not in history.delivered_in_com.get((member, c), ()) and must_have_delivered(history, member, c):
                yield f"{delivery} as safe in {config}, and its member {member} does not"


def safe_deliveries(history: History) -> Iterator[tuple[str, str, Event]]:
    """Each safe message with each configuration in which it is delivered, and a delivery there."""
    for message, deliveries in history.deliveries.items():
        if history.service(message) == "safe":
            for config, delivery in {delivery.config: delivery for delivery in reversed(deliveries)}.items():
                yield message, config, delivery


def must_have_delivered(history: History, member: str, c: str) -> bool:
    """Whether com(c), c a regular configuration, is over at a member that did not fail there."""
    stays = history.stays.get(member, [])
    there = [stay for stay in stays if history.reg(stay.config) == c]
    if there:
        return not there[-1].has_failed and (there[-1].end == "config" or history.complete)
    is_past = any(stay.is_regular and stay.view.seq > history.views[c].seq for stay in stays if c in history.views)
    return is_past or history.complete or bool(stays and stays[-1].has_failed)


def safe_when_all_are_there(history: History) -> Iterator[str]:
    """EVS-7.2: a safe message delivered in a regular configuration: all its members installed that configuration."""
    for _, config, delivery in safe_deliveries(history):
        if history.reg(config) == config:
            there = {stay.who for stay in history.stays_in.get(config, ())}
            for member in sorted(history.members(config) - there):
                yield f"{delivery} as safe in {config}, which its member {member} never installs"


# ---- liveness ----------------------------------------------------------------------------------


def one_configuration(history: History) -> Iterator[str]:
    """EVS-LIVE, in a complete and healed run: all processes that are up rest in one configuration."""
    if history.complete and history.healed:
        rests = {who: stay.config if stay else "nothing" for who, stay in history.up.items()}
        if len(set(rests.values())) > 1 or "nothing" in rests.values():
            yield "what is up rests apart: " + ", ".join(f"{who} in {config}" for who, config in sorted(rests.items()))


PROPERTIES: list[tuple[tuple[str, ...], Callable[[History], Iterator[str]]]] = [
    (("EVS-1.1",), partial_order),
    (("EVS-1.3",), sent_where_delivered),
    (("EVS-1.4",), sent_and_delivered_once),
    (("EVS-2.1",), resting_together),
    (("EVS-2.2",), in_the_last_installed),
    (("EVS-2.3", "EVS-2.4"), installed_at_once),
    (("EVS-2.5",), transitional),
    (("EVS-2.6",), agreement),
    (("EVS-2.7",), alone_after_failure),
    (("EVS-3",), self_delivery),
    (("EVS-4",), atomicity),
    (("EVS-5",), causality),
    (("EVS-6.1", "EVS-6.2"), logical_time),
    (("EVS-6.3",), no_holes),
    (("EVS-7.1",), safe_everywhere),
    (("EVS-7.2",), safe_when_all_are_there),
    (("EVS-LIVE",), one_configuration),
    (("PC-1",), primary_order),
    (("PC-2",), primary_continuity),
]
