"""Random tiny runs of an idealised ISIS of 1991: it knows of each message what precedes it, and views change when all
that must be delivered has been."""

from dataclasses import dataclass, field
from typing import Any

from tests.verify.random_traces.draw import GROUPS, NAMES, Draw
from tests.verify.random_traces.log import Log
from tests.verify.random_traces.mutations import Mutation, is_beside, mutated, swap_deliveries
from tests.verify.runs import in_runs

Row = dict[str, Any]
View = tuple[str, int]


def trace(seed: int) -> list[Row]:
    """The rows of a run; its header has a column `mutation` if it is not as it happened."""
    draw = Draw(seed)
    rows = _Isis(draw, f"isis {seed}").play()
    if draw.is_so(0.5):
        rows = in_runs(rows)
    return mutated(draw, rows, AIMED) if draw.is_so(0.75) else rows


@dataclass(eq=False)
class _Message:
    id: str
    group: str
    view: View
    sender: str
    dests: set[str]
    """Incarnations."""
    past: frozenset["_Message"]
    is_agreed: bool


@dataclass(eq=False)
class _Process:
    name: str
    incarnation: int = 0
    is_up: bool = False
    sent: int = 0
    past: set[_Message] = field(default_factory=set)
    delivered: set[_Message] = field(default_factory=set)
    at: dict[str, View] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return f"{self.name}/{self.incarnation}"


@dataclass(eq=False)
class _Group:
    name: str
    view: View
    members: list[str] = field(default_factory=list)
    """Names, of those that have failed, too, until a view drops them."""
    order: list[_Message] = field(default_factory=list)
    """The agreed messages, as they are delivered first."""


class _Isis:
    def __init__(self, draw: Draw, run: str) -> None:
        self.draw = draw
        self.processes = [_Process(name) for name in draw.some_of(NAMES, 2 + draw.below(3))]
        self.groups = [_Group(name, (name, 0)) for name in draw.some_of(GROUPS, 1 + draw.below(2))]
        self.messages: list[_Message] = []
        self.has_times = draw.is_so(0.5)
        self.has_dests = not self.has_times and draw.is_so(0.3)
        self.has_ordinals = draw.is_so(0.3)
        self.complete = draw.is_so(0.7)
        self.log = Log(run, model="isis", complete=self.complete, healed=self.complete and draw.is_so(0.8))

    def play(self) -> list[Row]:
        for process in self.processes:
            self.start(process)
        for group in self.groups:
            for process in self.draw.shuffled(self.processes):
                if self.draw.is_so(0.8):
                    self.join(group, process)
        for _ in range(8 + self.draw.below(14)):
            self.step()
        if self.complete:
            self.deliver_all()
        elif self.draw.is_so(0.4):
            self.change_a_view()
            last = self.log.rows.pop()  # not everybody has installed the last view, perhaps
            self.log.rows += [last] if last["event"] != "config" else []
        return self.log.rows

    def step(self) -> None:
        what = self.draw.below(100)
        if what < 35:
            self.send()
        elif what < 75:
            for _ in range(1 + self.draw.below(3)):
                self.deliver_one()
        elif what < 80:
            self.send_to_one()
        else:
            self.change_a_view()

    # ---- messages ----

    def members(self, group: _Group) -> list[_Process]:
        """Those that are up."""
        return [process for process in self.processes if process.at.get(group.name) == group.view and process.is_up]

    def send(self) -> None:
        group = self.draw.one_of(self.groups)
        if not self.members(group):
            return
        process = self.draw.one_of(self.members(group))
        is_agreed = group is self.groups[0] and self.draw.is_so(0.4)
        dests = None
        if self.has_dests and self.draw.is_so(0.5):
            dests = self.draw.some_of(sorted(group.members), 1 + self.draw.below(len(group.members)))
        config = None if dests and self.draw.is_so(0.3) else self.config(group.view)
        for _ in range(self.draw.one_of([1, 1, 1, 2, 3])):
            process.sent += 1
            to = {each.identity for each in self.members(group) if dests is None or each.name in dests}
            message = _Message(
                f"{process.identity}/{process.sent}",
                *(group.name, group.view, process.identity, to, frozenset(process.past), is_agreed),
            )
            self.messages.append(message)
            process.past.add(message)
            service = "agreed" if is_agreed else "causal"
            columns = {"service": service, "config": config, "dests": dests, "vt": self.times(process)}
            self.write(process, group.name, "send", message=message.id, **columns)

    def times(self, process: _Process) -> dict[str, dict[str, int]] | None:
        """In each view that it is in, what it has sent and delivered."""
        if not self.has_times:
            return None
        found = {}
        for group in self.groups:
            view = process.at.get(group.name)
            if view == group.view:
                counts = dict.fromkeys(group.members, 0)
                for message in self.messages:
                    sender = message.sender.rpartition("/")[0]
                    is_own = message.sender == process.identity
                    if message.view == view and (is_own or message in process.delivered):
                        counts[sender] += 1
                found[group.name] = counts
        return found

    def can_deliver(self, process: _Process, message: _Message) -> bool:
        """Whether it is a member there, and has what precedes the message of what it is to have."""
        if not self.is_due(process, message):
            return False
        if any(self.is_due(process, other) for other in message.past):
            return False
        order = next(group.order for group in self.groups if group.name == message.group)
        before = order[: order.index(message)] if message in order else order
        return not message.is_agreed or not any(self.is_due(process, other) for other in before)

    def is_due(self, process: _Process, message: _Message) -> bool:
        is_member = process.is_up and process.at.get(message.group) == message.view
        return is_member and process.identity in message.dests and message not in process.delivered

    def deliver_one(self) -> bool:
        """Whether there was anything to deliver."""
        able = [
            (process, message)
            for process in self.processes
            for message in self.messages
            if self.can_deliver(process, message)
        ]
        if able:
            self.deliver(*self.draw.one_of(able))
        return bool(able)

    def deliver(self, process: _Process, message: _Message) -> None:
        process.delivered.add(message)
        process.past |= {message, *message.past}
        ordinal = None
        if message.is_agreed:
            group = next(group for group in self.groups if group.name == message.group)
            before = {other for other in message.past if other.view == message.view and other.is_agreed}
            for other in self.messages:  # not all of what precedes it need be for this process
                if other not in group.order and (other is message or other in before):
                    group.order.append(other)
            ordinal = group.order.index(message) if self.has_ordinals else None
        config = self.config(message.view)
        self.write(process, message.group, "deliver", message=message.id, config=config, ordinal=ordinal)

    def deliver_all(self) -> None:
        while self.deliver_one():
            pass

    def send_to_one(self) -> None:
        """From point to point: the sender waits until it has arrived."""
        group = self.draw.one_of(self.groups)
        if len(self.members(group)) < 2:
            return
        process, other = self.draw.shuffled(self.members(group))[:2]
        if any(self.is_due(other, message) for message in process.past):
            return
        process.sent += 1
        message = f"{process.identity}/{process.sent}"
        config = self.config(group.view) if self.draw.is_so(0.5) else None
        columns = {"config": config, "dests": [other.name], "vt": self.times(process)}
        self.write(process, group.name, "send", message=message, service="point", **columns)
        self.write(other, group.name, "deliver", message=message, config=config)
        other.past |= process.past

    # ---- views ----

    def change_a_view(self) -> None:
        process = self.draw.one_of(self.processes)
        group = self.draw.one_of(self.groups)
        gone = [name for name in group.members if name not in {each.name for each in self.members(group)}]
        if gone:
            self.deliver_all()
            self.install(group, [name for name in group.members if name != gone[0]])
        elif not process.is_up:
            self.start(process)
        elif process.name not in group.members:
            self.deliver_all()
            self.join(group, process)
        elif self.draw.is_so(0.6):
            self.fail(process)
        else:
            config = self.config(group.view) if self.draw.is_so(0.5) else None
            self.write(process, group.name, "stop", config=config)
            del process.at[group.name]

    def start(self, process: _Process) -> None:
        name, incarnation = process.name, process.incarnation + 1
        process.__init__(name, incarnation, is_up=True)  # type: ignore[misc]
        self.write(process, "", "start", recovered=False)

    def fail(self, process: _Process) -> None:
        """What no other process that is up knows of may be lost, from some message on; not of views that it left."""
        views = list(process.at.values())
        config = self.config(self.draw.one_of(views)) if views and self.draw.is_so(0.5) else None
        self.write(process, "", "fail", config=config)
        process.is_up = False
        known = {message for other in self.processes if other.is_up for message in other.past}
        own = [message for message in self.messages if message.sender == process.identity and message not in known]
        left = [place for place, message in enumerate(own) if process.at.get(message.group) != message.view]
        kept = left[-1] + 1 if left else 0
        for message in own[kept + self.draw.below(len(own) - kept + 1) :]:
            self.messages.remove(message)
            for group in self.groups:
                group.order = [other for other in group.order if other is not message]

    def join(self, group: _Group, process: _Process) -> None:
        process.at[group.name] = group.view
        self.install(group, [*group.members, process.name])

    def install(self, group: _Group, members: list[str]) -> None:
        """The next view, at those of its members that are in the last one; there is none if none is."""
        group.view = (group.name, group.view[1] + self.draw.one_of([1, 1, 1, 3]))
        group.members, group.order = members, []
        staying = [process for process in self.processes if process.is_up and group.name in process.at]
        for process in self.draw.shuffled(staying):
            process.at[group.name] = group.view
            columns = {"kind": "regular", "members": sorted(members), "seq": group.view[1]}
            self.write(process, group.name, "config", config=self.config(group.view), **columns)
        if not staying:
            group.members = []

    def config(self, view: View) -> str:
        return f"{view[0]}.{view[1]}"

    def write(self, process: _Process, group: str, event: str, **columns: Any) -> None:
        self.log.write(process.name, process.incarnation, group, event, **columns)


# ---- what is done to them ----------------------------------------------------------------------


def lose_of_failed(draw: Draw, rows: list[Row]) -> None:
    """Nobody delivers a message of one that failed later."""
    failed = [row for row in rows if row["event"] == "fail"]
    if sends := [row for row in rows if row["event"] == "send" and any(is_beside(row, end) for end in failed)]:
        lost = draw.one_of(sends)["message"]
        rows[:] = [row for row in rows if row["event"] != "deliver" or row["message"] != lost]


AIMED: list[Mutation] = [lose_of_failed, lose_of_failed, swap_deliveries]
