"""The trace format as data: what columns there are, and which events carry them.

Two literal tables. The recorder takes its record from them, the reader its checks, Parquet its
types, the tests their random rows, and docs/reference/trace.md is compared with them: a column is
added here and nowhere else.

A column is *required* of an event where a row without it says nothing at all. What one model needs
and another does not have (the `members` of a view, the `ordinal` of a delivery) is optional here:
a property that finds it missing is skipped, with that reason.
"""

from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import Meta

LONG = 2**63 - 1
"""The largest integer of a column: Parquet and Spark hold it in 64 bits."""

INT = 2**31 - 1
"""The largest incarnation: incarnation * 2**32 + n is an index, and fits in 64 bits."""

Long = Annotated[int, Meta(ge=-LONG - 1, le=LONG)]
Count = Annotated[int, Meta(ge=1, le=LONG)]
Natural = Annotated[int, Meta(ge=0, le=LONG)]
Incarnation = Annotated[int, Meta(ge=1, le=INT)]
Model = Literal["evs", "vs", "isis", "isis85", "mtp", "vsm", "rds"]
Models = Annotated[list[Model], Meta(min_length=1)]
MODELS: tuple[str, ...] = get_args(Model)
Service = Literal["causal", "agreed", "safe", "bcast", "obcast", "gbcast", "mtp", "order", "point"]


class Column(NamedTuple):
    """One column of the format."""

    type: Any
    """What the reader demands of a value, as a msgspec type."""
    arrow: str
    """How Parquet holds it; `json` is a string that holds JSON, `message` three columns."""
    words: str
    """Its type in words."""
    meaning: str


class Event(NamedTuple):
    """One kind of row: its own columns, besides those that every row has."""

    meaning: str
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    """At least one of these is there."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, required ones first."""
        return self.required + self.either + self.optional


COMMON = ("run", "process", "incarnation", "index", "time_ns", "group", "event")
"""The columns of every row."""

COUNTED = ("send", "deliver", "safe", "accept")
"""The events of which one row may stand for a run of messages."""

COLUMNS: dict[str, Column] = {
    "run": Column(str, "string", "string", "one execution of one system; runs are independent of each other"),
    "process": Column(str, "string", "string", 'name of the member, kept over restarts; `""` in a header only'),
    "incarnation": Column(Incarnation, "int", "integer from 1", "grows with each restart of the process"),
    "index": Column(
        Natural, "long", "integer from 0", "place in the local order of the process, over all incarnations"
    ),
    "time_ns": Column(Long, "long", "integer", "local clock in nanoseconds, for statistics only"),
    "group": Column(str, "string", "string", 'process group; `""` for the process, ring or site as a whole'),
    "event": Column(str, "string", "string", "what happened: one of the events below"),
    "message": Column(str, "message", "process/incarnation/number", "identity of a message"),
    "count": Column(Count, "long", "integer from 1", "how many messages the row stands for; missing means 1"),
    "config": Column(str, "string", "string", "id of a configuration or view, unique in the run"),
    "kind": Column(Literal["regular", "transitional"], "string", "regular or transitional", "kind of configuration"),
    "members": Column(list[str], "strings", "list of strings", "the members of the configuration, sorted"),
    "seq": Column(Long, "long", "integer", "grows along the configurations of every process"),
    "primary": Column(bool, "bool", "boolean", "whether the configuration is the primary component"),
    "previous": Column(str, "string", "string", "the regular configuration that a transitional one ends"),
    "ordinal": Column(Long, "long", "integer", "position in the total order; of a join in mtp: the first one accepted"),
    "master": Column(str | list[str], "strings", "string or list of strings", "the master's process, or its replicas"),
    "service": Column(Service, "string", "see below", "the promise under which a message is sent"),
    "label": Column(
        str | Long | list[Long], "json", "string, integer or list of integers", "BCAST label or OBCAST olabel"
    ),
    "dests": Column(
        list[str], "strings", "list of strings", "destinations, where they are not the members of `config`"
    ),
    "vt": Column(
        dict[str, dict[str, Long]], "clocks", "object of objects of integers", "vector times: group to process to count"
    ),
    "size": Column(Natural, "long", "integer from 0", "bytes of each message"),
    "action": Column(
        Literal["join", "withdraw", "failed", "user"],
        "string",
        "join, withdraw, failed or user",
        "what a gbcast is about",
    ),
    "subject": Column(str, "string", "process/incarnation", "whom a gbcast is about"),
    "request": Column(str, "string", "string", "unique id of a client's request"),
    "number": Column(Long, "long", "integer", "message number in mtp, not modulo 2**16"),
    "client": Column(str, "string", "string", "who asked, or who holds the lock"),
    "op": Column(Literal["update", "query"], "string", "update or query", "whether a request changes the data"),
    "body": Column(str, "string", "string", "`set K V`, `get K`, or anything else"),
    "position": Column(Natural, "long", "integer from 0", "how many updates or messages the history holds by then"),
    "result": Column(str, "string", "string", "what a request is answered with"),
    "turn": Column(Natural, "long", "integer from 0", "queries delivered in the view so far, this one included"),
    "item": Column(str, "string", "string", "what is locked"),
    "mode": Column(Literal["read", "write"], "string", "read or write", "mode of a lock"),
    "digest": Column(str, "string", "string", "digest of the application's state"),
    "counters": Column(dict[str, Long], "counts", "object of integers", "what a process knows of itself, by name"),
    "recovered": Column(bool, "bool", "boolean", "whether the process found its stable storage"),
    "model": Column(Model | Models, "strings", "string or list of strings", "which properties apply to the run"),
    "complete": Column(bool, "bool", "boolean", "whether the run came to rest, so that liveness may be judged"),
    "healed": Column(bool, "bool", "boolean", "whether, at rest, all that is up can reach each other"),
    "universe": Column(
        list[str], "strings", "list of strings", "all processes that may ever exist, where that is fixed"
    ),
}

EVENTS: dict[str, Event] = {
    "run": Event("the header of a run", ("model", "complete", "healed"), ("universe",)),
    "start": Event("the process begins an incarnation", (), ("recovered",)),
    "fail": Event("the process crashed; written by whoever knows, not by itself", (), ("config",)),
    "stop": Event("the process left of its own will; with a group, it left that group only", (), ("config",)),
    "config": Event(
        "the process installs a configuration (a view), or joins the web of mtp",
        ("config",),
        ("kind", "members", "seq", "primary", "previous", "ordinal", "master"),
    ),
    "send": Event(
        "the process originates a message",
        ("message",),
        ("count", "config", "service", "label", "dests", "vt", "size", "action", "subject", "request"),
    ),
    "deliver": Event("the process delivers a message to the application", ("message",), ("count", "config", "ordinal")),
    "safe": Event(
        "the process is told that all members of the view have the message", ("message",), ("count", "config")
    ),
    "accept": Event("mtp: the message of that number is accepted", ("number",), ("message", "count")),
    "reject": Event(
        "mtp: the number is rejected; isis85: the message's address is stale", (), (), ("number", "message")
    ),
    "flush": Event("isis85: flush returns to the process"),
    "request": Event("rds: a client hands a request to its server", ("client", "request", "op", "body")),
    "apply": Event("rds: the server applies an update", ("request", "position"), ("client",)),
    "answer": Event(
        "rds: the server evaluates a query", ("request", "position", "result"), ("client", "config", "turn")
    ),
    "reply": Event("rds: the client's server hands it the reply", ("request", "result"), ("client", "position")),
    "lock": Event("a replicated lock is granted", ("client", "item", "mode")),
    "unlock": Event("a replicated lock is released", ("client", "item", "mode")),
    "state": Event("what the process knows of itself", (), (), ("position", "digest", "counters")),
}
