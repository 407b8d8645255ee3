"""Random tiny traces of an idealised web (mtp-1991): one master, which gives each message a number and a fate, and
members that join, learn the fates, deliver, fail and join again."""

from collections import defaultdict

from tests.verify.random_traces.draw import GROUPS, Draw
from tests.verify.random_traces.mutations import Mutation
from tests.verify.random_traces.tiny import Pen, Row, finished, odd_names, part_of, trace_of


class Member:
    def __init__(self, name: str, group: str) -> None:
        self.pen = Pen(name, group)
        self.is_in = False
        self.next = 0
        """The number that it waits for."""
        self.learned = 0
        """The fates below this number are written down."""
        self.counts = False
        """Whether it has the state of the web."""


class Web:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        group = draw.one_of(["", *GROUPS])
        master, *names = odd_names(draw, 3 + draw.below(2))
        self.master = Member(master, group)
        self.members = [Member(name, group) for name in names]
        if draw.is_so(0.3):
            self.members.append(self.master)
        self.start = draw.one_of([0, 1, 65534])
        self.messages: list[str] = []
        """In the order of their numbers."""
        self.fates: dict[int, str] = {}
        """By number: accept or reject."""
        self.numbers: dict[str, int] = defaultdict(int)
        self.joins = 0
        self.tells_numbers = draw.is_so(0.8)
        self.tells_fates = draw.is_so(0.7)
        for member in self.members:
            if draw.is_so(0.8):
                self.join(member)

    @property
    def end(self) -> int:
        """The next number that is given."""
        return self.start + len(self.messages)

    def step(self) -> None:
        member = self.draw.one_of(self.members)
        what = self.draw.below(100)
        if what < 7:
            self.leave_or_join(member)
        elif what < 13:
            self.rate(member)
        elif what < 21:
            self.state(member)
        elif what < 38:
            self.send(member)
        elif what < 60:
            self.decide()
        elif what < 70 and self.tells_fates:
            self.learn(member)
        else:
            self.deliver(member)

    def send(self, member: Member) -> None:
        if not member.is_in:
            return
        for _ in range(1 + self.draw.below(3)):
            self.numbers[member.pen.identity] += 1
            message = f"{member.pen.identity}/{self.numbers[member.pen.identity]}"
            member.pen.write("send", message=message, service="mtp")
            self.messages.append(message)

    def decide(self) -> None:
        """Mostly the oldest."""
        undecided = [number for number in range(self.start, self.end) if number not in self.fates]
        for number in undecided[: 1 + self.draw.below(4)]:
            if self.draw.is_so(0.9):
                self.fates[number] = "reject" if self.draw.is_so(0.15) else "accept"
                self.tell(self.master, number)

    def tell(self, member: Member, number: int) -> None:
        is_told = self.fates[number] == "accept" or self.draw.is_so(0.5)
        message = {"message": self.messages[number - self.start]} if is_told else {}
        member.pen.write(self.fates[number], **message, number=number)

    def learn(self, member: Member) -> None:
        while member.is_in and member is not self.master and member.learned in self.fates and self.draw.is_so(0.7):
            self.tell(member, member.learned)
            member.learned += 1

    def deliver(self, member: Member, at_most: int = 3) -> None:
        while member.is_in and at_most and member.next in self.fates:
            if self.fates[member.next] == "accept":
                ordinal = {"ordinal": member.next} if self.tells_numbers else {}
                member.pen.write("deliver", message=self.messages[member.next - self.start], **ordinal)
            member.next += 1
            at_most -= 1

    def leave_or_join(self, member: Member) -> None:
        if not member.is_in or self.draw.is_so(0.3):
            self.join(member)
        else:
            member.is_in = False
            member.pen.write(self.draw.one_of(["fail", "stop"]))
            member.pen.incarnation += 1
            member.pen.write("start", recovered=False)

    def join(self, member: Member) -> None:
        """From the next number on; with the state if all before is decided."""
        member.is_in, member.next, member.learned, self.joins = True, self.end, self.end, self.joins + 1
        master = self.master.pen.process
        masters = [master] if self.draw.is_so(0.3) else master
        member.pen.write("config", config=f"join {self.joins}", ordinal=self.end, master=masters)
        member.counts = all(number in self.fates for number in range(self.start, self.end)) and self.draw.is_so(0.8)
        if member.counts:
            if self.master not in self.members:
                self.master.next, self.master.counts = self.end, True
            for other in part_of(self.draw, [*self.members, self.master]):
                self.deliver(other, at_most=len(self.messages))
                self.state(other)
            self.state(member)

    def state(self, member: Member) -> None:
        """Written down where it is known: by members that were given it, and by a master that is none."""
        if member.counts and (member.is_in or member not in self.members):
            past = [number for number in range(self.start, member.next) if self.fates[number] == "accept"]
            digest = f"#{sum((place + 1) * number for place, number in enumerate(past)) % 97}"
            member.pen.write("state", position=len(past), digest=digest)

    def rate(self, member: Member) -> None:
        window = 1 + self.draw.below(4)
        counters = {"sent": self.draw.below(window + 1), "window": window, "heartbeat": self.draw.below(9)}
        member.pen.write("state", counters=counters)

    def settle(self) -> None:
        """Let all that is accepted be delivered."""
        while len(self.fates) < len(self.messages):
            self.decide()
        for member in self.members:
            self.deliver(member, at_most=len(self.messages) + 1)


def trace(seed: int) -> list[Row]:
    """The rows of one run; two of three are mutated."""
    return _trace(seed, seed % 3 != 0)


def good(seed: int) -> list[Row]:
    """The rows of one run that nothing is wrong with."""
    return _trace(seed, is_mutated=False)


def _trace(seed: int, is_mutated: bool) -> list[Row]:
    draw = Draw(seed)
    web = Web(draw)
    for _ in range(10 + draw.below(60)):
        web.step()
    is_at_rest = draw.is_so(0.5)
    if is_at_rest:
        web.settle()
    pens = list(dict.fromkeys([web.master.pen, *(member.pen for member in web.members)]))
    rows = trace_of("mtp", pens, complete=is_at_rest, healed=is_at_rest or draw.is_so(0.3))
    return finished(draw, rows, f"mtp {seed}", is_mutated, AIMED)


# ---- mutations ---------------------------------------------------------------------------------


def misjudge(draw: Draw, rows: list[Row]) -> None:
    """A verdict is the other one."""
    if verdicts := [row for row in rows if row["event"] in ("accept", "reject")]:
        row = draw.one_of(verdicts)
        row["event"] = "reject" if row["event"] == "accept" else "accept"


def misremember(draw: Draw, rows: list[Row]) -> None:
    """All states that a member writes down after one are others."""
    if states := [row for row in rows if "digest" in row]:
        first = draw.one_of(states)
        for row in states[states.index(first) :]:
            if row["process"] == first["process"]:
                row["digest"] += "'"


def hurry(draw: Draw, rows: list[Row]) -> None:
    """A producer sends more than its window, or just as much."""
    if counted := [row for row in rows if "counters" in row]:
        row = draw.one_of(counted)
        row["counters"] = {**row["counters"], "sent": row["counters"]["window"] + draw.below(3)}


AIMED: list[Mutation] = [misjudge, misremember, hurry]
