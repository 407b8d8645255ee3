"""Random tiny runs of an idealised ISIS of 1985: it knows what each message follows, and a GBCAST waits until all that
must be delivered has been."""

from dataclasses import dataclass, field
from typing import Any

from tests.verify.judges.isis85 import is_less
from tests.verify.random_traces.draw import GROUPS, NAMES, Draw
from tests.verify.random_traces.log import Log
from tests.verify.random_traces.mutations import Mutation, is_beside, mutated
from tests.verify.runs import in_runs

Row = dict[str, Any]


def trace(seed: int) -> list[Row]:
    """The rows of a run; its header has a column `mutation` if it is not as it happened."""
    draw = Draw(seed)
    rows = _Isis85(draw, f"isis85 {seed}").play()
    if draw.is_so(0.5):
        rows = in_runs(rows)
    return mutated(draw, rows, AIMED) if draw.is_so(0.75) else rows


@dataclass(eq=False)
class _Message:
    id: str
    sender: str
    group: str
    view: str
    dests: list[str]
    service: str
    label: str | list[int] | None
    past: frozenset["_Message"]
    """All that its sender had sent or delivered, and what that followed."""
    after: frozenset["_Message"]
    """The OBCASTs that precede it, if it is one."""
    lock: tuple[str, str] | None = None
    """The read lock that it registers."""


@dataclass(eq=False)
class _Process:
    name: str
    incarnation: int = 0
    is_up: bool = False
    sent: int = 0
    past: set[_Message] = field(default_factory=set)
    seen: set[_Message] = field(default_factory=set)
    """What it has sent or delivered itself."""
    delivered: set[_Message] = field(default_factory=set)
    at: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        return f"{self.name}/{self.incarnation}"


@dataclass(eq=False)
class _Group:
    name: str
    number: int = 0
    members: list[str] = field(default_factory=list)
    """Incarnations, of those that have failed, too, until a view drops them."""
    past_views: list[tuple[str, list[str]]] = field(default_factory=list)
    orders: dict[str, list[_Message]] = field(default_factory=dict)
    """For each label the BCASTs, as they are delivered first."""

    @property
    def view(self) -> str:
        return f"{self.name or 'sites'}.{self.number}"


class _Isis85:
    def __init__(self, draw: Draw, run: str) -> None:
        self.draw = draw
        self.processes = [_Process(name) for name in draw.some_of(NAMES, 2 + draw.below(3))]
        self.sites = _Group("")
        self.groups = [_Group(name) for name in draw.some_of(GROUPS, 1 + draw.below(2))]
        self.messages: list[_Message] = []
        self.reads: list[tuple[_Group, str, str]] = []
        self.writes: list[tuple[_Group, str, str]] = []
        self.complete = draw.is_so(0.75)
        terms = {"complete": self.complete, "healed": self.complete and draw.is_so(0.8)}
        self.log = Log(run, model="isis85", **terms, universe=sorted(process.name for process in self.processes))

    def play(self) -> list[Row]:
        for process in self.processes:
            self.start(process)
        self.change_sites()
        for group in self.groups:
            self.install(group, [process.identity for process in self.processes if self.draw.is_so(0.8)])
        for _ in range(8 + self.draw.below(14)):
            self.step()
        if self.complete:
            self.deliver_all()
            self.change_sites()
            for process in self.up():
                self.write(process, "", "state", counters={"stored": 0})
        return self.log.rows

    def step(self) -> None:
        what = self.draw.below(110)
        group = self.draw.one_of(self.groups)
        members = self.members(group)
        if what < 40:
            for _ in range(1 + self.draw.below(3)):
                self.deliver_one()
        elif what < 60 and members:
            self.send(group, self.draw.one_of(members))
        elif what < 66 and members:
            self.lock_to_read(group, self.draw.one_of(members))
        elif what < 70 and members:
            self.lock_to_write(group)
        elif what < 74:
            self.unlock()
        elif what < 79 and members:
            self.flush(group, self.draw.one_of(members))
        elif what < 82:
            self.send_from_outside(group)
        elif what < 84 and self.up():
            self.write(self.draw.one_of(self.up()), "", "state", counters={"stored": self.draw.below(3)})
        elif what < 88:
            self.change_sites()
        else:
            self.change_group(group)

    def up(self) -> list[_Process]:
        return [process for process in self.processes if process.is_up]

    def members(self, group: _Group) -> list[_Process]:
        """Those that are up."""
        return [process for process in self.up() if process.at.get(group.name) == group.view]

    # ---- messages ----

    def send(self, group: _Group, process: _Process) -> None:
        service = self.draw.one_of(["bcast", "obcast"])
        labels = ["queue", "queue", 'é "2"', None] if service == "bcast" else [None]
        label = self.draw.one_of(labels)
        for _ in range(self.draw.one_of([1, 1, 1, 2])):
            dests = self.draw.some_of(group.members, 1 + self.draw.below(len(group.members)))
            self.broadcast(group, process, service, label, dests if self.draw.is_so(0.3) else None)

    def broadcast(
        self, group: _Group, process: _Process, service: str, label: Any, dests: list[str] | None = None, **columns: Any
    ) -> _Message:
        process.sent += 1
        if service == "obcast" and self.draw.is_so(0.9):
            label = [self.draw.below(3) for _ in range(2)]
            label[self.draw.below(2)] += process.sent
        after: set[_Message] = set()
        for other in process.seen:
            if service == other.service == "obcast" and is_less(other.label, label):
                after |= {other, *other.after}
        message = _Message(
            *(f"{process.identity}/{process.sent}", process.identity, group.name, group.view),
            *(dests or group.members, service, label, frozenset(process.past), frozenset(after)),
        )
        self.messages.append(message)
        process.past.add(message)
        process.seen.add(message)
        config = None if dests and self.draw.is_so(0.3) else group.view
        columns |= {"config": config, "service": service, "label": label, "dests": dests}
        self.write(process, group.name, "send", message=message.id, **columns)
        return message

    def is_due(self, process: _Process, message: _Message) -> bool:
        is_member = process.is_up and process.at.get(message.group) == message.view
        return is_member and process.identity in message.dests and message not in process.delivered

    def order(self, message: _Message) -> list[_Message]:
        """The BCASTs that it is to be in one order with."""
        group = next(group for group in self.groups if group.name == message.group)
        is_ordered = message.service == "bcast" and isinstance(message.label, str)
        return group.orders.setdefault(str(message.label), []) if is_ordered else []

    def can_deliver(self, process: _Process, message: _Message) -> bool:
        order = self.order(message)
        before = order[: order.index(message)] if message in order else order
        return self.is_due(process, message) and not any(
            self.is_due(process, other) for other in (*before, *message.after)
        )

    def deliver_one(self, of: list[_Message] | None = None) -> bool:
        """Whether there was anything to deliver of these, or of all."""
        able = [
            (process, message)
            for process in self.up()
            for message in (self.messages if of is None else of)
            if message.service != "gbcast" and self.can_deliver(process, message)
        ]
        if able:
            self.deliver(*self.draw.one_of(able))
        return bool(able)

    def deliver(self, process: _Process, message: _Message) -> None:
        process.delivered.add(message)
        process.seen.add(message)
        process.past |= {message, *message.past}
        order = self.order(message)
        if message not in order:
            order.append(message)
        self.write(process, message.group, "deliver", message=message.id, config=message.view)
        if message.lock and message.sender != process.identity:
            client, item = message.lock
            self.write(process, message.group, "lock", client=client, item=item, mode="read")

    def deliver_all(self) -> None:
        while self.deliver_one():
            pass

    def flush(self, group: _Group, process: _Process) -> None:
        """What the process knows of is delivered everywhere, with what precedes it."""
        pending = [message for message in process.seen if message.service == "obcast" and message.group == group.name]
        due = {message for each in pending for message in (each, *each.after)}
        while self.deliver_one([message for message in self.messages if message in due]):
            pass
        self.write(process, group.name, "flush")

    def send_from_outside(self, group: _Group) -> None:
        """One that is no member names the view that it knows of; all reject an old one."""
        outside = [process for process in self.up() if process.identity not in group.members]
        if not outside:
            return
        process = self.draw.one_of(outside)
        if not group.past_views or self.draw.is_so(0.5):
            if self.members(group):
                self.broadcast(group, process, self.draw.one_of(["bcast", "obcast"]), None)
            return
        view, members = self.draw.one_of(group.past_views)
        process.sent += 1
        message = f"{process.identity}/{process.sent}"
        service = self.draw.one_of(["bcast", "obcast"])
        self.write(process, group.name, "send", message=message, config=view, service=service)
        for other in self.up():
            if other.identity in members:
                self.write(other, group.name, "reject", message=message)

    # ---- locks ----

    def lock_to_read(self, group: _Group, process: _Process) -> None:
        """It is taken at one site, and an OBCAST registers it at the others."""
        client, item = self.draw.one_of(["ann", "bob"]), self.draw.one_of(["x", "y/1"])
        held = [(which, other) for which, _, other in self.writes]
        if (group, item) not in held and (group, client, item) not in self.reads:
            self.reads.append((group, client, item))
            self.write(process, group.name, "lock", client=client, item=item, mode="read")
            self.broadcast(group, process, "obcast", None).lock = (client, item)

    def lock_to_write(self, group: _Group) -> None:
        client, item = self.draw.one_of(["ann", "bob"]), self.draw.one_of(["x", "y/1"])
        if (group, item) not in [(which, other) for which, _, other in (*self.reads, *self.writes)]:
            self.writes.append((group, client, item))
            for process in self.members(group):
                self.write(process, group.name, "lock", client=client, item=item, mode="write")

    def unlock(self) -> None:
        """At all sites, when all know of it."""
        for mode, held in (("read", self.reads), ("write", self.writes)):
            if held and self.draw.is_so(0.5):
                group, client, item = held.pop()
                self.deliver_all()
                for process in self.members(group):
                    self.write(process, group.name, "unlock", client=client, item=item, mode=mode)

    # ---- views ----

    def change_sites(self) -> None:
        """The next site view is of all that are up."""
        up = self.up()
        if 2 * len(up) > len(self.processes) and {process.identity for process in up} != set(self.sites.members):
            self.install(self.sites, [process.identity for process in up])

    def change_group(self, group: _Group) -> None:
        process = self.draw.one_of(self.processes)
        members = self.members(group)
        gone = [identity for identity in group.members if identity not in {each.identity for each in members}]
        if gone and members:
            initiator = self.draw.one_of(members)
            self.gbcast(group, initiator, "failed", gone[0])
            self.install(group, [identity for identity in group.members if identity != gone[0]])
        elif not process.is_up:
            self.start(process)
        elif process not in members:
            if members:
                self.gbcast(group, process, "join", process.identity)
            self.install(group, [*(group.members if members else []), process.identity])
        elif self.draw.is_so(0.6):
            self.fail(process)
        elif self.draw.is_so(0.5):
            self.gbcast(group, process, "user", process.identity)
        else:
            self.gbcast(group, process, "withdraw", process.identity)
            config = group.view if self.draw.is_so(0.5) else None
            self.write(process, group.name, "stop", config=config)
            del process.at[group.name]
            self.install(group, [identity for identity in group.members if identity != process.identity])

    def gbcast(self, group: _Group, process: _Process, action: str, subject: str) -> None:
        """All that came before is delivered, then this at all members."""
        message = self.broadcast(group, process, "gbcast", None, action=action, subject=subject)
        self.deliver_all()
        for member in self.draw.shuffled(self.members(group)):
            self.deliver(member, message)

    def start(self, process: _Process) -> None:
        name, incarnation = process.name, process.incarnation + 1
        process.__init__(name, incarnation, is_up=True)  # type: ignore[misc]
        self.write(process, "", "start", recovered=False)

    def fail(self, process: _Process) -> None:
        """What no process that is up knows of may be lost, from some message on."""
        views = list(process.at.values())
        self.write(process, "", "fail", config=self.draw.one_of(views) if self.draw.is_so(0.5) else None)
        process.is_up = False
        known = {message for other in self.up() for message in other.past}
        alive = {other.identity for other in self.up()}
        unknown = [message for message in self.messages if message.sender not in alive and message not in known]
        for message in unknown[self.draw.below(len(unknown) + 1) :]:
            self.messages.remove(message)
            for group in self.groups:
                group.orders = {
                    label: [other for other in order if other is not message] for label, order in group.orders.items()
                }

    def install(self, group: _Group, members: list[str]) -> None:
        """The next view, at all of its members that are up; of none, it is not installed."""
        if group.number:
            group.past_views.append((group.view, group.members))
        group.number += self.draw.one_of([1, 1, 2])
        group.members, group.orders = members, {}
        for process in self.draw.shuffled([process for process in self.up() if process.identity in members]):
            process.at[group.name] = group.view
            columns = {"kind": "regular", "members": sorted(members), "seq": group.number}
            self.write(process, group.name, "config", config=group.view, **columns)

    def write(self, process: _Process, group: str, event: str, **columns: Any) -> None:
        self.log.write(process.name, process.incarnation, group, event, **columns)


# ---- what is done to them ----------------------------------------------------------------------


def outlive(draw: Draw, rows: list[Row]) -> None:
    """A message is delivered after the failure of its sender."""
    failures = {row["message"]: row["subject"] for row in rows if row.get("action") == "failed"}
    told = [row for row in rows if row["event"] == "deliver" and row["message"] in failures]
    pairs = [
        (row, other)
        for row in told
        for other in rows
        if other["event"] == "deliver" and is_beside(row, other)
        if other["message"].rpartition("/")[0] == failures[row["message"]]
    ]
    if pairs:
        row, other = draw.one_of(pairs)
        rows[:] = [each for each in rows if each is not other]
        rows.insert(next(place for place, each in enumerate(rows) if each is row) + 1, other)


def reorder(draw: Draw, rows: list[Row]) -> None:
    """One incarnation delivers two messages of one service the other way round."""
    services = {row["message"]: (row["service"], isinstance(row.get("label"), str)) for row in rows if "service" in row}
    places = [place for place, row in enumerate(rows) if row["event"] == "deliver" and row["message"] in services]
    pairs = [
        (one, other)
        for one in places
        for other in places
        if one < other and is_beside(rows[one], rows[other])
        if services[rows[one]["message"]] == services[rows[other]["message"]]
    ]
    if pairs:
        one, other = draw.one_of(pairs)
        rows[one], rows[other] = rows[other], rows[one]


def grant(draw: Draw, rows: list[Row]) -> None:
    """Where an item is locked, somebody else gets it, too."""
    if places := [place for place, row in enumerate(rows) if row["event"] == "lock"]:
        place = draw.one_of(places)
        rows.insert(place + 1, {**rows[place], "client": "eve", "mode": draw.one_of(["read", "write"])})


def unregister(draw: Draw, rows: list[Row]) -> None:
    """A read lock is not registered."""
    if reads := [row for row in rows if row["event"] == "lock" and row["mode"] == "read"]:
        lost = draw.one_of(reads)
        rows[:] = [row for row in rows if row is not lost]


def keep(draw: Draw, rows: list[Row]) -> None:
    """A store holds one more."""
    if states := [row for row in rows if row["event"] == "state"]:
        row = draw.one_of(states[-2:])
        row["counters"] = {"stored": row["counters"]["stored"] + 1}


def stay_behind(draw: Draw, rows: list[Row]) -> None:
    """A site does not install the last view."""
    if places := [place for place, row in enumerate(rows) if row["event"] == "config" and not row["group"]]:
        del rows[draw.one_of(places[-2:])]


AIMED: list[Mutation] = [outlive, reorder, reorder, grant, unregister, unregister, keep, stay_behind]
