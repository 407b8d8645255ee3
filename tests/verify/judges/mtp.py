"""The properties of model `mtp`: the multicast transport (mtp-1991, 3.2, 3.4 and the appendix).

Judged stay by stay: from a join, whose row tells the first number that is accepted, to the next join, fail or stop. The
verdict on a number is the master's; only where the master has written none down, what the members say is taken for it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from tests.evs.judge import Violation
from tests.verify.judges.property import Property, Row, groups, is_prefix, violations, without_evidence


@dataclass(eq=False)
class Stay:
    """A member from a join to what ended it."""

    who: str
    first: int | None
    """The number of the first message that it accepts."""
    delivered: list[tuple[int | None, str]] = field(default_factory=list)
    """Numbers, where they are known, and messages."""
    states: list[Row] = field(default_factory=list)
    was_given_state: bool = False
    """Whether it wrote down a state before it delivered anything."""
    is_over: bool = False

    @property
    def is_numbered(self) -> bool:
        return self.first is not None and all(number is not None for number, _ in self.delivered)


class Web:
    """What the members of one web wrote down."""

    def __init__(self, header: Row, processes: dict[str, list[Row]]) -> None:
        self.is_at_rest = header["complete"] and header["healed"]
        self.processes = processes
        rows = [row for those in processes.values() for row in those]
        self.masters = {name for row in rows for name in listed(row.get("master"))}
        self.verdicts = [row for row in rows if row["event"] in ("accept", "reject") and "number" in row]
        self.masters_verdicts = [row for row in self.verdicts if row["process"] in self.masters]
        self.numbers = {row["message"]: row["number"] for row in self.verdicts if "message" in row}
        self.sends: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        """By message: identity, process and place of who sent it."""
        self.deliveries: dict[str, list[tuple[str, int]]] = defaultdict(list)
        """By message: process and place of who delivered it."""
        self.stays: list[Stay] = []
        self.states_of_masters: list[Row] = []
        """Those written down outside of any stay."""
        for process, its_rows in processes.items():
            self._follow(process, its_rows)
        self.stays_in_order = [stay for stay in self.stays if stay.is_numbered]

    def _follow(self, process: str, rows: Iterable[Row]) -> None:
        stay: Stay | None = None
        for place, row in enumerate(rows):
            event = row["event"]
            if event in ("config", "start", "fail", "stop") and stay:
                stay.is_over, stay = True, None
            if event == "config":
                stay = Stay(process, row.get("ordinal"))
                self.stays.append(stay)
            elif event == "send":
                self.sends[row["message"]].append((f"{process}/{row['incarnation']}", process, place))
            elif event == "deliver":
                self.deliveries[row["message"]].append((process, place))
                if stay:
                    number = row.get("ordinal", self.numbers.get(row["message"]))
                    stay.delivered.append((number, row["message"]))
            elif event == "state" and "digest" in row and "position" in row:
                if stay:
                    stay.states.append(row)
                    stay.was_given_state |= not stay.delivered
                elif process in self.masters:
                    self.states_of_masters.append(row)

    @property
    def accepted(self) -> set[int]:
        """The numbers, by the master's verdict if there is one."""
        return {row["number"] for row in self.masters_verdicts or self.verdicts if row["event"] == "accept"}

    @property
    def comparable(self) -> list[tuple[str, Row, Row]]:
        """Each state of a member that joined with state transfer, with one of the same position from the start on."""
        stays = [stay for stay in self.stays if stay.first is not None]
        start = min((stay.first for stay in stays), default=0)
        joined = [stay for stay in stays if stay.first != start]
        there = [row for stay in stays if stay.first == start for row in stay.states]
        return [
            (stay.who, mine, other)
            for stay in joined
            if stay.was_given_state
            for mine in stay.states
            for other in [*there, *self.states_of_masters]
            if mine["position"] == other["position"]
        ]


def listed(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def judge(rows: list[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    return violations(PROPERTIES, webs(rows))


def skipped(rows: list[Row]) -> dict[str, str]:
    """The properties that one run cannot be judged by, with the reasons."""
    return without_evidence(PROPERTIES, webs(rows))


def webs(rows: list[Row]) -> list[Web]:
    return [Web(header, processes) for header, processes in groups(rows)]


# ---- agreement ---------------------------------------------------------------------------------


def one_sequence(web: Web) -> Iterator[str]:
    """MTP-AB1: delivered sequences never diverge: from the point where the later one joined, of any two stays one is a
    prefix of the other."""
    for one, other in combinations(web.stays_in_order, 2):
        start = max(one.first or 0, other.first or 0)
        ones, others = (
            [message for number, message in stay.delivered if (number or 0) >= start] for stay in (one, other)
        )
        if not is_prefix(ones, others) and not is_prefix(others, ones):
            yield f"from {start} on, {one.who} delivers {', '.join(ones)}, and {other.who} {', '.join(others)}"


def all_that_is_accepted(web: Web) -> Iterator[str]:
    """MTP-AB2, in a complete and healed run: a member delivers every message accepted from its last join on."""
    for stay in web.stays_in_order:
        if not stay.is_over:
            delivered = {number for number, _ in stay.delivered}
            for number in sorted(web.accepted - delivered):
                if number >= (stay.first or 0):
                    yield f"{number} is accepted, and {stay.who}, there from {stay.first} on, does not deliver it"


def one_fate(web: Web) -> Iterator[str]:
    """MTP-FATE: no member accepts or rejects against the master's verdict; no number is both accepted and rejected.

    A member knows of no verdict but the master's (the appendix: R_i is in R_0): one that the master has not given is
    against it.
    """
    first: dict[int, Row] = {}
    for row in [*web.masters_verdicts, *web.verdicts]:
        other = first.setdefault(row["number"], row)
        if row["event"] != other["event"]:
            yield f"{row['process']} {row['event']}s {row['number']}, and {other['process']} {other['event']}s it"
    decided = {row["number"] for row in web.masters_verdicts}
    for row in web.verdicts:
        if decided and row["number"] not in decided:
            yield f"{row['process']} {row['event']}s {row['number']}, on which the master gives no verdict"


def in_number_order(web: Web) -> Iterator[str]:
    """MTP-ORDER: the delivered messages are exactly the accepted ones from s on, in number order, none left out up to
    the last delivered; a number belongs to one message. Each was sent, once, by the process in its id, and not after
    its sender had delivered it; each process delivers it at most once."""
    for stay in web.stays_in_order:
        numbers = [number or 0 for number, _ in stay.delivered]
        for one, other in pairwise(numbers):
            if one >= other:
                yield f"{stay.who} delivers number {other} after {one}"
        for number in numbers:
            if number < (stay.first or 0):
                yield f"{stay.who} delivers number {number}, and is there from {stay.first} on"
            if web.accepted and number not in web.accepted:
                yield f"{stay.who} delivers number {number}, which is not accepted"
        for number in sorted(web.accepted - set(numbers)):
            if numbers and (stay.first or 0) <= number <= max(numbers):
                yield f"{stay.who} leaves out {number}, and delivers number {max(numbers)}"
    yield from one_message_a_number(web)
    yield from sent_and_delivered_once(web)


def one_message_a_number(web: Web) -> Iterator[str]:
    messages: dict[int, set[str]] = defaultdict(set)
    for row in web.verdicts:
        if "message" in row:
            messages[row["number"]].add(row["message"])
    for rows in web.processes.values():
        for row in rows:
            if row["event"] == "deliver" and "ordinal" in row:
                messages[row["ordinal"]].add(row["message"])
    for number, those in messages.items():
        if len(those) > 1:
            yield f"number {number} is that of {' and '.join(sorted(those))}"


def sent_and_delivered_once(web: Web) -> Iterator[str]:
    for message, deliveries in web.deliveries.items():
        sends = web.sends.get(message, [])
        if len(sends) != 1:
            yield f"{message} is delivered, and sent {len(sends)} times"
        for identity, sender, place in sends:
            if identity != message.rpartition("/")[0]:
                yield f"{identity} sends {message}, whose id names another"
            if any(process == sender and earlier < place for process, earlier in deliveries):
                yield f"{sender} delivers {message} before it is sent"
        receivers = [process for process, _ in deliveries]
        for process in sorted({process for process in receivers if receivers.count(process) > 1}):
            yield f"{process} delivers {message} again"


# ---- what a process knows of itself ------------------------------------------------------------


def within_the_window(web: Web) -> Iterator[str]:
    """MTP-RATE: in no heartbeat does a producer send more data packets than its window, retransmissions included."""
    for row in rates(web):
        sent, window = row["counters"]["sent"], row["counters"]["window"]
        if sent > window:
            heartbeat = row["counters"].get("heartbeat", "?")
            yield f"{row['process']} sends {sent} packets in heartbeat {heartbeat}, and the window is {window}"


def rates(web: Web) -> list[Row]:
    return [
        row
        for rows in web.processes.values()
        for row in rows
        if row["event"] == "state" and {"sent", "window"} <= row.get("counters", {}).keys()
    ]


def state_of_the_others(web: Web) -> Iterator[str]:
    """MTP-JOIN: a member that joined with state transfer has the state of one that was there from the start."""
    for who, mine, other in web.comparable:
        if mine["digest"] != other["digest"]:
            yield f"{who} has state {mine['digest']} at {mine['position']}, {other['process']} {other['digest']}"


# ---- what there is to judge by -----------------------------------------------------------------


def no_numbers(web: Web) -> str:
    if not web.deliveries:
        return "no deliver rows"
    return "" if any(stay.delivered for stay in web.stays_in_order) else "no stay tells all numbers of what it delivers"


def no_liveness(web: Web) -> str:
    if not web.is_at_rest:
        return "the run is not complete and healed"
    if not web.accepted:
        return "nothing is accepted"
    return "" if web.stays_in_order else "no stay tells the first number that it accepts"


PROPERTIES = [
    Property("MTP-AB1", one_sequence, no_numbers),
    Property("MTP-AB2", all_that_is_accepted, no_liveness),
    Property("MTP-FATE", one_fate, lambda web: "" if web.verdicts else "no accept or reject rows"),
    Property("MTP-ORDER", in_number_order, lambda web: "" if web.deliveries else "no deliver rows"),
    Property("MTP-RATE", within_the_window, lambda web: "" if rates(web) else "no counters sent and window"),
    Property(
        "MTP-JOIN",
        state_of_the_others,
        lambda web: "" if web.comparable else "no state that somebody joined with can be compared with another",
    ),
]
