"""The properties of model `rds`: the replicated data service (replicated-data-1998, sections 3 to 5).

A server's history begins anew with each start that did not find its stable storage: such a *life* is judged as a
server of its own. A `state` row with a position, wherever it stands, says how long the history is from there on.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from tests.evs.graph import Graph
from tests.evs.judge import Violation
from tests.verify.judges.property import Property, Row, groups, violations, without_evidence

SET = re.compile(r"set ([^ ]+) (.+)", re.DOTALL)
GET = re.compile(r"get ([^ ]+)")


@dataclass(eq=False)
class Event:
    """A row, and where its server is by then."""

    row: Row
    place: int
    life: tuple[str, int]
    """The server, and which of its lives."""
    config: str
    """The view that the row names, else the one installed last."""
    at: str
    """The view installed last, with no fail, stop or start in between; this one, if it installs one."""
    length: int
    """Of its history, before this row."""

    @property
    def who(self) -> str:
        name: str = self.row["process"]
        return name


class Service:
    """What the servers of one service wrote down."""

    def __init__(self, header: Row, processes: dict[str, list[Row]]) -> None:
        self.complete, self.healed = header["complete"], header["healed"]
        self.logs = {process: follow(process, rows) for process, rows in processes.items()}
        self.events = [event for log in self.logs.values() for event in log]
        self.requests: dict[str, Event] = {}
        for event in self.of("request"):
            self.requests.setdefault(event.row["request"], event)
        self.views: dict[str, Row] = {}
        for event in self.of("config"):
            self.views.setdefault(event.config, event.row)
        self.histories: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
        """Of each life: position → request."""
        for event in self.of("apply"):
            self.histories[event.life].setdefault(event.row["position"], event.row["request"])

    def of(self, *kinds: str) -> list[Event]:
        return [event for event in self.events if event.row["event"] in kinds]

    def op(self, request: str) -> str:
        """Of a request that was handed in; empty for any other."""
        return self.requests[request].row["op"] if request in self.requests else ""

    def body(self, request: str) -> str:
        return self.requests[request].row["body"] if request in self.requests else ""

    def primary(self, config: str) -> bool | None:
        return self.views[config].get("primary") if config in self.views else None

    def rests(self, process: str) -> str:
        """The view in which a process that is up is in the end."""
        log = self.logs.get(process)
        return log[-1].at if log else ""

    @property
    def precedes(self) -> Graph:
        """Local order and send → deliver."""
        edges = [pair for log in self.logs.values() for pair in pairwise(log)]
        for delivery in self.of("deliver"):
            edges += [(send, delivery) for send in self.of("send") if send.row["message"] == delivery.row["message"]]
        return Graph(self.events, edges)


def follow(process: str, rows: list[Row]) -> list[Event]:
    log: list[Event] = []
    at, length, life, incarnation = "", 0, 0, None
    for place, row in enumerate(rows):
        kind = row["event"]
        is_new = row["incarnation"] != incarnation
        if is_new or kind in ("start", "fail", "stop"):
            at = ""
        if is_new and incarnation is not None and not (kind == "start" and row.get("recovered")):
            life, length = life + 1, 0
        incarnation = row["incarnation"]
        if kind == "config":
            at = row["config"]
        log.append(Event(row, place, (process, life), row.get("config", at), at, length))
        if kind in ("apply", "state"):
            length = row.get("position", length)
    return log


def judge(rows: list[Row]) -> list[Violation]:
    """What one run violates; nothing for a good trace."""
    return violations(PROPERTIES, services(rows))


def skipped(rows: list[Row]) -> dict[str, str]:
    """The properties that one run cannot be judged by, with the reasons."""
    return without_evidence(PROPERTIES, services(rows))


def services(rows: list[Row]) -> list[Service]:
    return [Service(header, processes) for header, processes in groups(rows)]


# ---- updates -----------------------------------------------------------------------------------


def one_history(service: Service) -> Iterator[str]:
    """RDS-DONE: the update histories of any two servers are prefixes of one another (I2)."""
    for (one, ones), (other, others) in combinations(service.histories.items(), 2):
        for position in sorted(ones.keys() & others.keys()):
            if ones[position] != others[position]:
                yield f"{one[0]} applies {ones[position]} as number {position}, and {other[0]} {others[position]}"


def once(service: Service) -> Iterator[str]:
    """RDS-ONCE: each server applies an update at most once, at consecutive positions (from 1, or from the `state` row
    that it was given); each request gets at most one reply, for an update only after its own server has applied it."""
    applied: set[tuple[tuple[str, int], str]] = set()
    for event in service.of("apply"):
        request, position = event.row["request"], event.row["position"]
        if (event.life, request) in applied:
            yield f"{event.who} applies {request} again"
        applied.add((event.life, request))
        if position != event.length + 1:
            yield f"{event.who} applies {request} as number {position}, and its history is {event.length} long"
    replied: set[str] = set()
    for event in service.of("reply"):
        request = event.row["request"]
        if request in replied:
            yield f"{request} gets a second reply, from {event.who}"
        replied.add(request)
        if service.op(request) == "update" and not any(
            done.row["request"] == request and done.who == service.requests[request].who
            for done in service.logs[event.who][: event.place]
            if done.row["event"] == "apply"
        ):
            yield f"{event.who} replies to {request}, which its own server has not applied"


def waiting(service: Service) -> Iterator[str]:
    """RDS-WAIT: `last_update ≤ safe_to_update ≤ |updates|` at every server, at every step (I1)."""
    for event, low, high in bounds(service):
        counters = event.row["counters"]
        if counters[low] > counters[high]:
            yield f"{event.who} has {low} {counters[low]} and {high} {counters[high]}"


def bounds(service: Service) -> list[tuple[Event, str, str]]:
    """Each state with two counters of which the second bounds the first."""
    names = ("last_update", "safe_to_update", "updates")
    return [
        (event, low, high)
        for event in service.of("state")
        for low, high in combinations(names, 2)
        if {low, high} <= event.row.get("counters", {}).keys()
    ]


# ---- queries -----------------------------------------------------------------------------------


def sequential(service: Service) -> Iterator[str]:
    """RDS-SEQ: an answer's `position` is the number of updates that its server had applied, and at least what the
    client has witnessed; equal queries at equal positions have equal results; the reply repeats position and result of
    an answer to that request. For the bodies that are defined, the result is that of the state after `position`
    updates."""
    results: dict[tuple[str, int], str] = {}
    for event in service.of("answer"):
        request, position, result = (event.row[name] for name in ("request", "position", "result"))
        if position != event.length:
            yield f"{event.who} answers {request} after {position} updates, and has applied {event.length}"
        if request not in service.requests:
            continue
        if position < (least := witnessed(service, service.requests[request])):
            yield f"{event.who} answers {request} after {position} updates, and its client has witnessed {least}"
        other = results.setdefault((service.body(request), position), result)
        if result != other:
            yield f"{service.body(request)} after {position} updates is {other}, and {result}"
        due = evaluated(service, event)
        if due is not None and result != due:
            yield f"{service.body(request)} after {position} updates is {due}, and {event.who} answers {result}"
    for event in service.of("reply"):
        yield from reply_repeats(service, event)


def witnessed(service: Service, asked: Event) -> int:
    """The highest position that a client had been told of when it asked."""
    return max(
        (
            event.row.get("position", 0)
            for event in service.logs[asked.who][: asked.place]
            if event.row["event"] == "reply" and told(service, event) == asked.row["client"]
        ),
        default=0,
    )


def told(service: Service, reply: Event) -> str | None:
    """The client of a reply."""
    request = service.requests.get(reply.row["request"])
    client: str | None = reply.row.get("client", request.row["client"] if request else None)
    return client


def evaluated(service: Service, answer: Event) -> str | None:
    """What `get K` yields by the history of its server; None where that cannot be known.

    Where a server was given its state, others tell what it does not, if they are of one mind.
    """
    request = answer.row["request"]
    query = GET.fullmatch(service.body(request))
    if service.op(request) != "query" or not query:
        return None
    for position in range(answer.row["position"], 0, -1):
        mine = service.histories.get(answer.life, {}).get(position)
        those = {mine} if mine else {each[position] for each in service.histories.values() if position in each}
        update = SET.fullmatch(service.body(those.pop())) if len(those) == 1 else None
        if not update:
            return None
        if update[1] == query[1]:
            return update[2]
    return "nil"


def reply_repeats(service: Service, reply: Event) -> Iterator[str]:
    request, result = reply.row["request"], reply.row["result"]
    if service.op(request) == "update":
        if SET.fullmatch(service.body(request)) and result != "ok":
            yield f"{reply.who} replies {result} to {service.body(request)}, not ok"
    elif service.op(request) == "query":
        answers = [event.row for event in service.of("answer") if event.row["request"] == request]
        if not any(
            (reply.row.get("position", row["position"]), result) == (row["position"], row["result"]) for row in answers
        ):
            yield f"{reply.who} replies {result} to {request}, after {reply.row.get('position')}, which nobody answers"


def balanced(service: Service) -> Iterator[str]:
    """RDS-BALANCE: the answer to turn i of a view comes from the member of rank i mod n, and a turn has one answer.
    Without `turn`: in a view in which a complete run rests, the members' counts of answers differ by at most one."""
    by_turn: dict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in turns(service):
        by_turn[event.config, event.row["turn"]].append(event)
    for (config, turn), events in by_turn.items():
        members = service.views[config]["members"]
        due = members[turn % len(members)]
        for event in events:
            if event.who != due:
                yield f"{event.who} answers turn {turn} of {config}, which is that of {due}"
        if len(events) > 1:
            yield f"turn {turn} of {config} has {len(events)} answers"
    for config, counts in counts_at_rest(service).items():
        if max(counts.values()) - min(counts.values()) > 1:
            yield f"in {config} the members answer {', '.join(f'{who} {n}' for who, n in sorted(counts.items()))}"


def turns(service: Service) -> list[Event]:
    return [
        event
        for event in service.of("answer")
        if "turn" in event.row and service.views.get(event.config, {}).get("members")
    ]


def counts_at_rest(service: Service) -> dict[str, Counter[str]]:
    """Of the views in which all their members rest, and whose answers tell no turns, how many each member gave."""
    found = {}
    for config, view in service.views.items():
        answers = [event for event in service.of("answer") if event.config == config]
        members = view.get("members") or []
        is_at_rest = service.complete and all(service.rests(member) == config for member in members)
        if members and is_at_rest and answers and not any("turn" in event.row for event in answers):
            found[config] = Counter(dict.fromkeys(members, 0))
            found[config].update(event.who for event in answers)
    return found


# ---- views -------------------------------------------------------------------------------------


def in_primary_views(service: Service) -> Iterator[str]:
    """RDS-PRIMARY: an update's `send` and `safe` lie in primary views; an update is applied anywhere only if, between
    its request and its first apply, its client's server was in a primary view; any two primary views share a member.

    Between: from the request on, and not after (precedes) an apply.
    """
    updates = {
        send.row["message"] for send in service.of("send") if service.op(send.row.get("request", "")) == "update"
    }
    for event in service.of("send", "safe"):
        if event.row["message"] in updates and not service.primary(event.config):
            yield f"{event.who}: {event.row['event']} of {event.row['message']}, an update, in {event.config}"
    graph = service.precedes
    for applied in service.of("apply"):
        request = applied.row["request"]
        primary = first_in_primary(service, request)
        if request not in service.requests:
            yield f"{applied.who} applies {request}, for which nobody has asked"
        elif primary is None:
            yield f"{applied.who} applies {request}, and its client's server is in no primary view after the request"
        elif primary is applied or graph.path(applied, primary):
            yield f"{applied.who} applies {request} before its client's server is in a primary view"
    primaries = [(config, set(view["members"])) for config, view in service.views.items() if view.get("primary")]
    for (one, ones), (other, others) in combinations(primaries, 2):
        if not ones & others:
            yield f"primary views {one} and {other} share no member"


def first_in_primary(service: Service, request: str) -> Event | None:
    """The first thing that a client's server does in a primary view, from the request on."""
    if request not in service.requests:
        return None
    asked = service.requests[request]
    return next((event for event in service.logs[asked.who][asked.place :] if service.primary(event.at)), None)


def replied_to(service: Service) -> Iterator[str]:
    """RDS-LIVE, in a complete and healed run: every request whose server is up is replied to."""
    replied = {event.row["request"] for event in service.of("reply")}
    for request, asked in service.requests.items():
        last = service.logs[asked.who][-1].row
        is_up = last["event"] not in ("fail", "stop") and last["incarnation"] == asked.row["incarnation"]
        if is_up and request not in replied:
            yield f"{asked.who} is up, and does not reply to {request}"


# ---- what there is to judge by -----------------------------------------------------------------


def no_primary(service: Service) -> str:
    if not service.views:
        return "no view is installed"
    if any(view.get("primary") is None or not view.get("members") for view in service.views.values()):
        return "a view does not say whether it is primary, or has no members"
    return ""


def no_answers(service: Service) -> str:
    if not service.of("answer"):
        return "no answer rows"
    if turns(service) or counts_at_rest(service):
        return ""
    return "no answer tells its turn in a view with members, and no view is at rest in a complete run"


def no_liveness(service: Service) -> str:
    if not (service.complete and service.healed):
        return "the run is not complete and healed"
    return "" if service.requests else "no request rows"


PROPERTIES = [
    Property("RDS-DONE", one_history, lambda service: "" if service.of("apply") else "no apply rows"),
    Property("RDS-ONCE", once, lambda service: "" if service.of("apply", "reply") else "no apply or reply rows"),
    Property("RDS-SEQ", sequential, lambda service: "" if service.of("answer", "reply") else "no answer or reply rows"),
    Property("RDS-WAIT", waiting, lambda service: "" if bounds(service) else "no counters of updates"),
    Property("RDS-PRIMARY", in_primary_views, no_primary),
    Property("RDS-BALANCE", balanced, no_answers),
    Property("RDS-LIVE", replied_to, no_liveness),
]
