"""What the rows of one run say of one group, laid out as the properties speak of it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from tests.evs.graph import Graph, Node

Row = dict[str, Any]

FAILURES = ("fail", "stop", "start")
"""What ends a stay as a failure does. A start, too: whoever starts again has failed, known or not."""

VERBS = {"config": "installs", "send": "sends", "deliver": "delivers", "safe": "is told safe"}


class View(NamedTuple):
    """A configuration, as an installation of it describes it."""

    kind: str
    members: frozenset[str]
    seq: Any
    """An integer, or None where the row has none."""
    primary: bool | None
    previous: str | None


@dataclass(slots=True, eq=False)
class Stay:
    """A process in a configuration, from its installation to what ended it."""

    who: str
    identity: str
    config: str
    view: View
    before: "Stay | None"
    """Where it was straight before, if it came from somewhere."""
    is_after_failure: bool
    end: str = ""
    """`config`, `fail`, `stop` or `start`; empty while it rests there."""
    next: "Stay | None" = None

    @property
    def is_regular(self) -> bool:
        return self.view.kind == "regular"

    @property
    def has_failed(self) -> bool:
        return self.end in FAILURES


@dataclass(slots=True, eq=False)
class Event:
    """One thing that a process did: a row, or one message of a row that stands for several."""

    number: int
    """In the local order of its process."""
    who: str
    """The process, as members are named: in `vs` with its incarnation."""
    identity: str
    """The process with its incarnation."""
    kind: str
    config: str
    """The one that the row names; where it names none, the one installed last."""
    stay: Stay | None
    """Where its process is, by what it has installed."""
    message: str = ""
    service: str = ""

    def __str__(self) -> str:
        what = self.config if self.kind == "config" else self.message
        return " ".join(filter(None, (self.who, VERBS.get(self.kind, f"{self.kind}s"), what)))


@dataclass
class History:
    """The events of a group, process by process, and what is looked up in them."""

    model: str
    complete: bool
    healed: bool
    processes: dict[str, list[Event]] = field(default_factory=dict)
    stays: dict[str, list[Stay]] = field(default_factory=lambda: defaultdict(list))
    """By who it is."""
    views: dict[str, View] = field(default_factory=dict)
    """What the first installation found says of each configuration."""
    up: dict[str, Stay | None] = field(default_factory=dict)
    """The processes that are up in the end, and where they rest."""

    # ---- what happened ----

    @cached_property
    def events(self) -> list[Event]:
        return [event for events in self.processes.values() for event in events]

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
        return found

    @cached_property
    def sent(self) -> dict[tuple[str, str], list[str]]:
        """By sender and configuration."""
        found = defaultdict(list)
        for event in self.events:
            if event.kind == "send":
                found[event.who, event.config].append(event.message)
        return found

    @cached_property
    def delivered(self) -> dict[tuple[str, str], list[str]]:
        """By receiver and configuration, in the order of delivery."""
        found = defaultdict(list)
        for event in self.events:
            if event.kind == "deliver":
                found[event.who, event.config].append(event.message)
        return found

    @cached_property
    def delivered_in_com(self) -> dict[tuple[str, str], list[str]]:
        """By receiver and regular configuration: what was delivered there or in the transitional one after it."""
        found = defaultdict(list)
        for event in self.events:
            if event.kind == "deliver":
                found[event.who, self.reg(event.config)].append(event.message)
        return found

    def service(self, message: str) -> str:
        """The level of a message; empty if nobody sent it."""
        return self.sends[message][0].service if message in self.sends else ""

    # ---- configurations ----

    def reg(self, config: str) -> str:
        """The configuration itself if it is regular, else the regular one that it ends."""
        view = self.views.get(config)
        return view.previous or "" if view and view.kind == "transitional" else config

    def members(self, config: str) -> frozenset[str]:
        return self.views[config].members if config in self.views else frozenset()

    @cached_property
    def all_stays(self) -> list[Stay]:
        return [stay for stays in self.stays.values() for stay in stays]

    @cached_property
    def stays_in(self) -> dict[str, list[Stay]]:
        """By configuration."""
        found = defaultdict(list)
        for stay in self.all_stays:
            found[stay.config].append(stay)
        return found

    def last_of_com(self, stay: Stay) -> Stay:
        """Where a process ends that is in a regular configuration: there, or in the transitional one after it."""
        after = stay.next
        return after if after and not after.is_regular and after.view.previous == stay.config else stay

    # ---- precedes ----

    @cached_property
    def precedes(self) -> Graph:
        """Local order and send → deliver."""
        return self.graph(lambda event: event)

    @cached_property
    def precedes_by_view(self) -> Graph:
        """The same, with all installations of one configuration merged into one node."""
        return self.graph(lambda event: installation(event.config) if event.kind == "config" else event)

    def graph(self, node: Callable[[Event], Node], more: Iterable[tuple[Node, Node]] = ()) -> Graph:
        """Local order and send → deliver, and more edges, among the nodes that events become."""
        nodes = {event: node(event) for event in self.events}
        local = ((nodes[one], nodes[other]) for events in self.processes.values() for one, other in pairwise(events))
        causes = (
            (nodes[send], nodes[delivery])
            for message, sends in self.sends.items()
            for send in sends
            for delivery in self.deliveries.get(message, ())
        )
        return Graph(nodes.values(), [*local, *causes, *more])


def installation(config: str) -> str:
    """The node that all installations of a configuration are merged into."""
    return f"the installation of {config}"


def origin(message: str) -> str:
    """The incarnation in a message's id."""
    return message.rpartition("/")[0]


def histories(rows: Iterable[Row], model: str) -> Iterator[History]:
    """One for each group; rows about a process as a whole belong to every group."""
    ordered = sorted(rows, key=lambda row: (row["process"], row["index"]))
    header, events = ordered[0], [row for row in ordered if row["event"] in {*VERBS, *FAILURES}]
    assert header["event"] == "run", "the process of a header sorts first"
    for group in sorted({row["group"] for row in events if row["event"] in VERBS}) or [""]:
        history = History(model, header["complete"], header["healed"])
        for process, its_rows in groupby(events, lambda row: row["process"]):
            _read(history, group, process, its_rows)
        yield history


def _read(history: History, group: str, process: str, rows: Iterable[Row]) -> None:
    """Follow one process through its rows."""
    events = history.processes[process] = []
    stay: Stay | None = None
    has_failed = False
    who = ""
    for row in rows:
        kind, of_the_group = row["event"], row["group"] == group
        if not of_the_group and (row["group"] or kind not in FAILURES or not stay):
            continue  # of another group, or of a process that is not in this one
        identity = f"{process}/{row['incarnation']}"
        who = identity if history.model == "vs" else process
        if stay and identity != stay.identity:  # it has failed, and nobody wrote that
            stay.end, stay, has_failed = "start", None, True
        at = stay
        config = (row.get("config") if of_the_group else None) or (at.config if at else "")
        if kind == "config":
            at = Stay(who, identity, config, _view(row), stay, has_failed)
            if stay:
                stay.end, stay.next = kind, at
            stay, has_failed = at, False
            history.views.setdefault(config, at.view)
            history.stays[who].append(at)
        elif kind in FAILURES:
            has_failed |= kind != "start" or stay is not None
            if stay:
                stay.end, stay = kind, None
        for message in messages(row):
            events.append(Event(len(events), who, identity, kind, config, at, message, row.get("service") or ""))
    if events and events[-1].kind not in ("fail", "stop"):
        history.up[who] = stay


def _view(row: Row) -> View:
    kind = row.get("kind") or "regular"
    members = frozenset(row.get("members") or ())
    return View(kind, members, row.get("seq"), row.get("primary"), row.get("previous"))


def messages(row: Row) -> list[str]:
    """The messages that a row stands for; a row about none is one event, too."""
    if "message" not in row:
        return [""]
    first = int(row["message"].rpartition("/")[2])
    return [f"{origin(row['message'])}/{number}" for number in range(first, first + row.get("count", 1))]
