"""The rows of one run as the papers on ISIS speak of them: processes, groups, views, and what happens in them.

No information survives a failure (isis-1985, 2): local order, as far as it is a cause, is that of one incarnation.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from tests.evs.graph import Graph, Node
from tests.verify.runs import written_out

Row = dict[str, Any]

FAILURES = ("fail", "stop", "start")
"""What ends a stay as a failure does. A start, too: whoever starts again has failed, known or not."""

VERBS = {"config": "installs", "deliver": "delivers", "flush": "is flushed", "state": "has a state"}


class View(NamedTuple):
    """Its name: configurations are unique in a run, and properties are judged group by group."""

    group: str
    config: str

    def __str__(self) -> str:
        return f"{self.config} of {self.group}" if self.group else self.config


class Terms(NamedTuple):
    """A view as an installation of it describes it."""

    kind: str
    members: frozenset[str]
    seq: int
    primary: bool | None
    previous: str | None

    def __str__(self) -> str:
        return f"number {self.seq} of {', '.join(sorted(self.members))}"


@dataclass(slots=True, eq=False)
class Stay:
    """An incarnation in a view of a group, from its installation to what ended it."""

    who: str
    process: str
    identity: str
    view: View
    terms: Terms
    before: "Stay | None"
    """Where it was in this group straight before, if it came from somewhere."""
    end: str = ""
    """`config`, `fail`, `stop` or `start`; empty while it rests there."""


@dataclass(slots=True, eq=False)
class Event:
    """What a row says, or what it says of one message."""

    row: Row
    who: str
    """The process, as members are named: in `isis85` with its incarnation."""
    process: str
    identity: str
    """The process with its incarnation."""
    stay: Stay | None
    """Where its process is in the row's group, by what it has installed."""
    view: View | None
    """The one that the row names; where it names none, the one installed last, unless it names destinations."""
    is_down: bool
    """Whether its process has failed or stopped, and not started since."""

    @property
    def kind(self) -> str:
        kind: str = self.row["event"]
        return kind

    @property
    def group(self) -> str:
        group: str = self.row["group"]
        return group

    @property
    def message(self) -> str:
        message: str = self.row.get("message", "")
        return message

    @property
    def service(self) -> str:
        service: str = self.row.get("service", "")
        return service

    def __str__(self) -> str:
        what = self.view.config if self.kind == "config" and self.view else self.message
        return " ".join(filter(None, (self.identity, VERBS.get(self.kind, f"{self.kind}s"), what)))


@dataclass
class Run:
    """The events of a run, or of one group of it, and what is looked up in them."""

    header: Row
    incarnations: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """The events of each, in local order."""
    stays: list[Stay] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    """The incarnations that wrote anything."""
    ended: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The incarnations that failed, stopped, or were followed by another; by group those that only stopped there."""

    @property
    def complete(self) -> bool:
        return bool(self.header["complete"])

    # ---- what happened ----

    @cached_property
    def events(self) -> list[Event]:
        return [event for events in self.incarnations.values() for event in events]

    @cached_property
    def sends(self) -> dict[str, list[Event]]:
        """By message."""
        return self._by_message("send")

    @cached_property
    def deliveries(self) -> dict[str, list[Event]]:
        """By message."""
        return self._by_message("deliver")

    def _by_message(self, kind: str) -> dict[str, list[Event]]:
        found = defaultdict(list)
        for event in self.events:
            if event.kind == kind:
                found[event.message].append(event)
        return dict(found)

    @cached_property
    def all_sends(self) -> list[Event]:
        return [event for event in self.events if event.kind == "send"]

    def service(self, message: str) -> str:
        """The service of a message; empty if nobody sent it."""
        return self.sends[message][0].service if message in self.sends else ""

    @cached_property
    def delivered(self) -> dict[str, list[str]]:
        """What each incarnation delivered, in order, each message where it was delivered first."""
        return {
            identity: list(dict.fromkeys(event.message for event in events if event.kind == "deliver"))
            for identity, events in self.incarnations.items()
        }

    def delivered_in(self, view: View | None, message: str) -> set[str]:
        """Who delivered a message in that view."""
        return {delivery.who for delivery in self.deliveries.get(message, ()) if delivery.view == view}

    # ---- views ----

    @cached_property
    def views(self) -> dict[View, Terms]:
        """What the first installation found says of each view."""
        found: dict[View, Terms] = {}
        for stay in self.stays:
            found.setdefault(stay.view, stay.terms)
        return found

    @cached_property
    def stays_in(self) -> dict[View, list[Stay]]:
        found = defaultdict(list)
        for stay in self.stays:
            found[stay.view].append(stay)
        return dict(found)

    def sequence(self, group: str) -> list[View]:
        """The views of a group that anybody installed, in the order of seq."""
        return sorted(
            (view for view in self.views if view.group == group), key=lambda view: (self.views[view].seq, view)
        )

    @cached_property
    def groups(self) -> list[str]:
        return sorted({view.group for view in self.views})

    def destinations(self, send: Event) -> frozenset[str] | None:
        """Whom a message is addressed to; None where nothing says it."""
        if "dests" in send.row:
            return frozenset(send.row["dests"])
        return self.views[send.view].members if send.view in self.views else None

    def survivors(self, view: View | None) -> list[str]:
        """Of a view those of whom it is known that they survive it: they installed the next one, or rest in it in a
        complete run. Where some have gone on, who rests in the view is left behind."""
        stays = self.stays_in.get(view, []) if view else []
        gone_on = [stay.who for stay in stays if stay.end == "config"]
        at_rest = [stay.who for stay in stays if not stay.end and self.complete]
        return gone_on or at_rest

    def is_operational(self, identity: str, group: str) -> bool:
        """Whether an incarnation that wrote anything neither failed nor stopped, in this group or as a whole."""
        return identity in self.known and identity not in self.ended[""] and identity not in self.ended[group]

    # ---- precedes ----

    @cached_property
    def causes(self) -> list[tuple[Node, Node]]:
        """Local order and send → deliver."""
        local = ((one, other) for events in self.incarnations.values() for one, other in pairwise(events))
        sent = (
            (send, delivery)
            for message, sends in self.sends.items()
            for send in sends
            for delivery in self.deliveries.get(message, ())
        )
        return [*local, *sent]

    @cached_property
    def precedes(self) -> Graph:
        return Graph(self.events, self.causes)


def origin(message: str) -> str:
    """The incarnation in a message's id."""
    return message.rpartition("/")[0]


def read(rows: Iterable[Row], members_have_incarnations: bool) -> Run:
    """The run that these rows tell of."""
    ordered = sorted(written_out(rows), key=lambda row: (row["process"], row["index"]))
    assert ordered[0]["event"] == "run", "the process of a header sorts first"
    run = Run(ordered[0])
    lives: dict[str, _Life] = {}
    for row in ordered:
        if row["event"] != "run":
            life = lives.setdefault(row["process"], _Life(run, members_have_incarnations))
            life.follow(row)
    return run


class _Life:
    """Follows one process through its rows."""

    def __init__(self, run: Run, members_have_incarnations: bool) -> None:
        self.run = run
        self.members_have_incarnations = members_have_incarnations
        self.identity = ""
        self.is_down = False
        self.at: dict[str, Stay] = {}
        """Where it is, by group."""

    def follow(self, row: Row) -> None:
        kind, group, process = row["event"], row["group"], row["process"]
        identity = f"{process}/{row['incarnation']}"
        if identity != self.identity or kind == "start":  # it has failed before, known or not
            if self.identity:
                self._end("start", "")
            self.identity, self.is_down = identity, False
            self.run.known.add(identity)
        who = identity if self.members_have_incarnations else process
        stay = self.at.get(group)
        if kind == "config":
            stay, self.is_down = self._install(row, who), False
        event = Event(row, who, process, identity, stay, _view(row, stay), self.is_down)
        self.run.incarnations[identity].append(event)
        if kind in ("fail", "stop"):
            self._end(kind, group)

    def _install(self, row: Row, who: str) -> Stay:
        view = View(row["group"], row["config"])
        terms = Terms(
            row.get("kind") or "regular",
            frozenset(row.get("members", ())),
            row.get("seq", 0),
            row.get("primary"),
            row.get("previous"),
        )
        before = self.at.get(view.group)
        if before:
            before.end = "config"
        stay = self.at[view.group] = Stay(who, row["process"], self.identity, view, terms, before)
        self.run.stays.append(stay)
        return stay

    def _end(self, kind: str, group: str) -> None:
        """It is in no view any more of this group, or of any."""
        self.run.ended[group].add(self.identity)
        self.is_down = self.is_down or not group
        for each in [group] if group else list(self.at):
            if each in self.at:
                self.at.pop(each).end = kind


def _view(row: Row, stay: Stay | None) -> View | None:
    if "config" in row:
        return View(row["group"], row["config"])
    return stay.view if stay and "dests" not in row else None


# ---- what both models demand ------------------------------------------------------------------


def agreement(run: Run) -> Iterator[str]:
    """All installations of one view agree on kind, members, seq, primary and previous; a process installs only views
    that contain it, with growing seq."""
    for view, stays in run.stays_in.items():
        first = stays[0]
        for stay in stays:
            if stay.terms != first.terms:
                yield f"{stay.identity} installs {view} as {stay.terms}, {first.identity} as {first.terms}"
            if stay.who not in stay.terms.members:
                yield f"{stay.identity} installs {view}, of which it is no member"
    installed = defaultdict(list)
    for stay in run.stays:
        installed[stay.process, stay.view.group].append(stay)
    for stays in installed.values():
        for one, other in pairwise(stays):
            if one.terms.seq >= other.terms.seq:
                yield f"{other.identity} installs {other.view}, {other.terms}, after {one.terms}"


def one_sequence(run: Run, group: str) -> Iterator[str]:
    """The views of a group are one sequence, and what a member installs from the time it is in until it fails or stops
    is a contiguous part of it."""
    sequence = run.sequence(group)
    place = {view: number for number, view in enumerate(sequence)}
    for one, other in pairwise(sequence):
        if run.views[one].seq == run.views[other].seq:
            yield f"{one} and {other} both are number {run.views[one].seq}"
    for stay in run.stays:
        if stay.view.group == group and stay.before and place[stay.view] != place[stay.before.view] + 1:
            yield f"{stay.identity} installs {stay.view} straight after {stay.before.view}, which is not the one before"


def sent_once_by_its_process(run: Run) -> Iterator[str]:
    """A delivered message was sent, once, by the process in its id, and its sending does not come after its own
    sender's delivery of it; each process delivers it at most once."""
    for message, sends in run.sends.items():
        for send in sends:
            if send.identity != origin(message):
                yield f"{send.identity} sends {message}, whose id names another"
        if len(sends) > 1:
            yield f"{message} is sent {len(sends)} times"
    for message, deliveries in run.deliveries.items():
        if message not in run.sends:
            yield f"{deliveries[0]}, which nobody sent"
        seen = set()
        for delivery in deliveries:
            if delivery.who in seen:
                yield f"{delivery} again"
            seen.add(delivery.who)
            if any(
                send.process == delivery.process and send.row["index"] > delivery.row["index"]
                for send in run.sends.get(message, ())
            ):
                yield f"{delivery} before it is sent"


def in_the_last_installed(run: Run, outsiders_may_send: bool = False) -> Iterator[str]:
    """A row's view is the one that its process installed last in that group, with no fail, stop or start in between.

    A fail or stop of the process as a whole may name one of any group. Nobody fails or stops twice. Where outsiders may
    send to a group, the view that one of them names is an address.
    """
    for events in run.incarnations.values():
        at: dict[str, View] = {}
        gone: set[str] = set()
        for event in events:
            if event.kind in ("send", "deliver"):
                if not (outsiders_may_send and event.kind == "send" and event.group not in at and not event.is_down):
                    yield from _elsewhere(run, event, at.get(event.group))
            elif event.kind == "config" and event.view:
                at[event.group] = event.view
                gone.discard(event.group)
            elif event.kind == "start":
                at.clear()
            elif event.kind in ("fail", "stop"):
                ends = {group: view for group, view in at.items() if event.group in ("", group)}
                named = event.row.get("config")
                if named is not None and named not in {view.config for view in ends.values()}:
                    yield f"{event} in {named}, where it is not"
                elif named is None and not ends and (event.is_down or event.group in gone):
                    yield f"{event} when it has failed or stopped"
                gone.add(event.group)
                for group in ends:
                    del at[group]


def _elsewhere(run: Run, event: Event, at: View | None) -> Iterator[str]:
    named = event.row.get("config")
    if named is not None and named != (at.config if at else None):
        yield f"{event} in {named}, and has installed {at or 'none'} last"
    elif (
        named is None
        and at is None
        and any(send.view or "dests" not in send.row for send in run.sends.get(event.message, ()))
    ):
        yield f"{event} in no view"
