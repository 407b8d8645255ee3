"""One group of one run, as the properties ask for it: stays of processes, and messages as columns of numbers.

This runs where Spark runs it: with numpy and pyarrow, without the rest of covey.

A *stay* is a process in a configuration, from its installation to what ended it. Messages are numbered; what was sent
in one regular configuration is a `Community`, with a table of who delivered what, where, and when in its local order.
Rows that stand for several messages are written out here and nowhere else. Rows about the process as a whole (group
`""`) belong to every group of the process.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

FAILURES = ("fail", "stop", "start")
"""What ends a stay as a failure does. A start, too: whoever starts again has failed, known or not."""
NEVER = np.iinfo(np.int64).max
NOWHERE = -1
SERVICES = ("causal", "agreed", "safe")
CAUSAL, AGREED, SAFE = range(3)


class Violation(NamedTuple):
    """What contradicts a property: the events, as process and index, and a sentence that says how."""

    why: str
    events: tuple[tuple[str, int], ...]


class View(NamedTuple):
    """A configuration, as an installation describes it."""

    kind: str
    members: frozenset[str]
    seq: int
    primary: bool | None
    previous: str | None


class Stay:
    """A process in a configuration."""

    def __init__(
        self, who: int, name: str, config: str, view: View, event: tuple[str, int], before: "Stay | None"
    ) -> None:
        self.who = who
        self.name = name
        self.config = config
        self.view = view
        self.event = event
        self.before = before
        """Where it was straight before, if it came from somewhere."""
        self.is_after_failure = False
        self.end = ""
        """`config`, `fail`, `stop` or `start`; empty while it rests there."""
        self.next: Stay | None = None

    @property
    def is_regular(self) -> bool:
        return self.view.kind == "regular"

    @property
    def has_failed(self) -> bool:
        return self.end in FAILURES

    @property
    def reg(self) -> str:
        """The regular configuration that this one is or ends."""
        return self.config if self.is_regular else self.view.previous or ""

    @property
    def last_of_com(self) -> "Stay":
        """Where the process ends that is in a regular configuration: there, or in the transitional one after it."""
        after = self.next
        return after if after and not after.is_regular and after.view.previous == self.config else self


@dataclass(slots=True)
class Turn:
    """A row that is no message: an installation, or a turn in the life of a process."""

    index: int
    event: str
    config: str | None
    stay: Stay | None
    """Where the process was when it came; after it for an installation."""


@dataclass(slots=True)
class Columns:
    """Sends or deliveries, an entry each, in the local order of each process."""

    process: np.ndarray
    who: np.ndarray
    """The process, as members are named: in `vs` with its incarnation."""
    incarnation: np.ndarray
    index: np.ndarray
    config: np.ndarray
    """The one that the row names, or else the one that the process was in."""
    inside: np.ndarray
    """The one that the process was in; `NOWHERE` where in none."""
    message: np.ndarray
    ordinal: np.ndarray
    """`NOWHERE` where the row has none."""
    service: np.ndarray


class Group:
    """What the rows of one run say of one group."""

    def __init__(self, table: Any, *, incarnations: bool = False) -> None:
        """Members are processes, or `incarnations` of processes."""
        self.incarnations = incarnations
        self.complete = bool(table["complete"][0].as_py())
        self.healed = bool(table["healed"][0].as_py())
        self.processes: list[str] = []
        self.members_named: list[str] = []
        self.configs: list[str] = []
        self.views: dict[str, View] = {}
        self.turns: dict[int, list[Turn]] = {}
        """By process."""
        self.stays: dict[int, list[Stay]] = defaultdict(list)
        self.up: dict[int, Stay | None] = {}
        """The processes that are up in the end, and where they rest."""
        self._names = {"process": self.processes, "member": self.members_named, "config": self.configs}
        self._codes: dict[str, dict[str, int]] = {kind: {} for kind in self._names}
        events = np.array(table["event"].to_pylist(), dtype=object)
        is_message = (events == "send") | (events == "deliver")
        messages = table.filter(_mask(is_message))
        self._read_turns(table.filter(_mask(~is_message)).to_pylist() + _signs_of_life(messages))
        self._read_messages(messages, events[is_message])
        regs = [self.code("config", self.reg(name)) for name in [*self.configs]]
        self._regs = np.array([*regs, *range(len(regs), len(self.configs))], dtype=np.int64)

    def code(self, kind: str, name: str) -> int:
        codes = self._codes[kind]
        if name not in codes:
            codes[name] = len(codes)
            self._names[kind].append(name)
        return codes[name]

    def find(self, member: str) -> int | None:
        """The number of a member; None for one that the rows do not tell of."""
        return self._codes["member"].get(member)

    def name(self, process: str, incarnation: int) -> str:
        """How a process is named as a member."""
        return f"{process}/{incarnation}" if self.incarnations else process

    # ---- configurations ----

    def _read_turns(self, rows: list[dict[str, Any]]) -> None:
        by_process = defaultdict(list)
        for row in sorted(rows, key=lambda row: (row["process"], row["index"])):
            by_process[row["process"]].append(row)
        for process, its_rows in by_process.items():
            self._follow(process, its_rows)

    def _follow(self, process: str, rows: Sequence[dict[str, Any]]) -> None:
        """Follow one process through its turns."""
        turns: list[Turn] = []
        name = ""
        stay: Stay | None = None
        incarnation, has_failed = 0, False
        for row in rows:
            kind = row["event"]
            if row["whole"] and not stay:
                continue  # what becomes of a process that is not in the group is nothing to it
            if stay and row["incarnation"] != incarnation:  # it has failed, and nobody wrote that
                stay.end, stay, has_failed = "start", None, True
            incarnation = row["incarnation"]
            name = self.name(process, incarnation)
            if kind == "message":
                turns.append(Turn(row["index"], kind, None, stay))
                continue
            if kind == "config":
                at = Stay(self.code("member", name), name, row["config"], _view(row), (process, row["index"]), stay)
                at.is_after_failure = has_failed
                if stay:
                    stay.end, stay.next = kind, at
                stay, has_failed = at, False
                self.views.setdefault(at.config, at.view)
                self.code("config", at.config)
                self.stays[at.who].append(at)
                turns.append(Turn(row["index"], kind, at.config, at))
                continue
            turns.append(Turn(row["index"], kind, row["config"], stay))
            has_failed |= kind != "start" or stay is not None
            if stay:
                stay.end, stay = kind, None
        if turns and turns[-1].event not in ("fail", "stop"):
            self.up[self.code("member", name)] = stay
        self.turns[self.code("process", process)] = [
            turn for turn in turns if turn.event != "message" or turn.stay is None
        ]

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

    def reg(self, config: str) -> str:
        """The configuration itself if it is regular, else the regular one that it ends."""
        view = self.views.get(config)
        return view.previous or "" if view and view.kind == "transitional" else config

    def members(self, config: str) -> frozenset[str]:
        return self.views[config].members if config in self.views else frozenset()

    def named(self, config: int) -> str:
        return self.configs[config] if config >= 0 else "no configuration"

    # ---- messages ----

    def _read_messages(self, table: Any, events: np.ndarray) -> None:
        count = _numbers(table, "count", 1)
        each = np.repeat(np.arange(len(count)), count)
        place = np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        process = self._coded("process", table["process"])
        incarnation = _numbers(table, "incarnation", 0)
        who = self._identities(process, incarnation)[each]
        process, incarnation = process[each], incarnation[each]
        index = _numbers(table, "index", 0)[each] + place
        config, ordinal = self._coded("config", table["config"])[each], _numbers(table, "ordinal", NOWHERE)[each]
        services = {name: code for code, name in enumerate(SERVICES)}
        service = np.array([services.get(name, NOWHERE) for name in table["service"].to_pylist()], dtype=np.int64)
        origin = self._coded("process", table["origin"])[each]
        number = _numbers(table, "origin_number", 0)[each] + place
        ids = np.stack([origin, _numbers(table, "origin_incarnation", 0)[each], number], axis=1)
        self._parts, message = np.unique(ids, axis=0, return_inverse=True)
        inside = self._inside(process, index)
        columns = (
            process,
            who,
            incarnation,
            index,
            np.where(config == NOWHERE, inside, config),
            inside,
            message.reshape(-1),
            np.where(ordinal == NOWHERE, NOWHERE, ordinal + place),
            service[each],
        )
        order = np.lexsort((index, process))
        is_send = (events[each] == "send")[order]
        self.sends = Columns(*(column[order][is_send] for column in columns))
        self.deliveries = Columns(*(column[order][~is_send] for column in columns))

    def _coded(self, kind: str, column: Any) -> np.ndarray:
        """Names as numbers; `NOWHERE` where there is none."""
        encoded = column.combine_chunks().dictionary_encode()
        codes = np.array([self.code(kind, name) for name in encoded.dictionary.to_pylist()] + [NOWHERE], dtype=np.int64)
        indices = encoded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
        return codes[np.asarray(indices, dtype=np.int64)]

    def _identities(self, process: np.ndarray, incarnation: np.ndarray) -> np.ndarray:
        """The numbers of members."""
        pairs, place = np.unique(np.stack([process, incarnation], axis=1), axis=0, return_inverse=True)
        codes = [self.code("member", self.name(self.processes[one], other)) for one, other in pairs.tolist()]
        return np.array(codes, dtype=np.int64)[place.reshape(-1)]

    def _inside(self, process: np.ndarray, index: np.ndarray) -> np.ndarray:
        """In which configuration a process was, by what it has installed."""
        inside = np.full(len(process), NOWHERE, dtype=np.int64)
        for each in np.unique(process):
            turns = self.turns.get(int(each), [])
            begins = np.array([turn.index for turn in turns], dtype=np.int64)
            there = [self.code("config", turn.config or "") if turn.event == "config" else NOWHERE for turn in turns]
            mine = process == each
            at = np.searchsorted(begins, index[mine], side="right")
            inside[mine] = np.array([NOWHERE, *there], dtype=np.int64)[at]
        return inside

    def message(self, number: int) -> str:
        """The id of a message."""
        origin, incarnation, place = self._parts[number]
        return f"{self.processes[origin]}/{incarnation}/{place}"

    @property
    def origins(self) -> np.ndarray:
        """By message: origin and its incarnation, in columns."""
        return self._parts[:, :2]

    @cached_property
    def is_first(self) -> np.ndarray:
        """Of sends: whether it is the first of its message; to send it again violates EVS-1.4, and counts no more."""
        first = np.zeros(len(self.sends.message), dtype=bool)
        first[np.unique(self.sends.message, return_index=True)[1]] = True
        return first

    @cached_property
    def service(self) -> np.ndarray:
        """By message: the service under which it was sent; `NOWHERE` where nobody did."""
        found = np.full(len(self._parts), NOWHERE, dtype=np.int64)
        sent, first = np.unique(self.sends.message, return_index=True)
        found[sent] = self.sends.service[first]
        return found

    def reg_of(self, config: np.ndarray) -> np.ndarray:
        """The regular configurations that these are or end."""
        return np.where(config >= 0, self._regs[np.maximum(config, 0)], NOWHERE) if len(self._regs) else config

    def event(self, columns: Columns, place: int) -> tuple[str, int]:
        return self.processes[columns.process[place]], int(columns.index[place])

    def teller(self, columns: Columns, place: int) -> str:
        """Who sends or delivers, as members are named."""
        return self.members_named[int(columns.who[place])]

    @cached_property
    def communities(self) -> list["Community"]:
        """The regular configurations in which something was sent or delivered."""
        used = np.unique(np.concatenate([self.sends.config, self.reg_of(self.deliveries.config)]))
        return [Community(self, int(config)) for config in used if config >= 0]


class Community:
    """A regular configuration, with what was sent in it and who delivered that.

    `when[m, p]` is the index at which process p first delivered the m-th message in com(c), `NEVER` where it did not;
    `again[m, p]` is the index at which it did so last.
    """

    def __init__(self, group: Group, config: int) -> None:
        self.group = group
        self.config = config
        self.name = group.configs[config]
        sends, deliveries = group.sends, group.deliveries
        is_here = sends.config == config
        self.sent = np.flatnonzero(is_here & group.is_first)
        here = np.flatnonzero(group.reg_of(deliveries.config) == config)
        self.messages = np.unique(np.concatenate([sends.message[is_here], deliveries.message[here]]))
        shape = (len(self.messages), len(group.members_named))
        self.when = np.full(shape, NEVER, dtype=np.int64)
        self.again = np.full(shape, NOWHERE, dtype=np.int64)
        rows = self.row(deliveries.message[here])
        _, first = np.unique(rows * shape[1] + deliveries.who[here], return_index=True)
        self.when[rows[first], deliveries.who[here][first]] = deliveries.index[here][first]
        self._rows, self._who, self._config = rows, deliveries.who[here], deliveries.config[here]
        np.maximum.at(self.again, (rows, deliveries.who[here]), deliveries.index[here])
        self.is_sent = np.zeros(len(self.messages), dtype=bool)
        """Whether it was sent in this configuration."""
        self.is_sent[self.row(sends.message[self.sent])] = True
        self.service = group.service[self.messages]
        self.sender = np.full(len(self.messages), NOWHERE, dtype=np.int64)
        sent, first = np.unique(sends.message[self.sent], return_index=True)
        self.sender[self.row(sent)] = sends.who[self.sent][first]

    def row(self, message: np.ndarray) -> np.ndarray:
        """The rows of messages."""
        return np.searchsorted(self.messages, message)

    @property
    def delivered(self) -> np.ndarray:
        """By message and process: whether it was delivered in com(c)."""
        return np.array(self.when != NEVER)

    def id(self, row: int) -> str:
        return self.group.message(int(self.messages[row]))

    def event(self, row: int, who: int) -> tuple[str, int]:
        name = self.group.members_named[who]
        return name.rpartition("/")[0] if self.group.incarnations else name, int(self.when[row, who])

    def configurations(self) -> Iterator[int]:
        """This one, and the transitional ones that end it, as far as anything was delivered there."""
        yield from (int(config) for config in np.unique(self._config))

    def delivered_in(self, config: int) -> np.ndarray:
        """By message and process: whether it was delivered in one of these."""
        found = np.zeros(self.when.shape, dtype=bool)
        there = self._config == config
        found[self._rows[there], self._who[there]] = True
        return found


def places(where: Any) -> list[int]:
    """Where it is true."""
    found: list[int] = np.flatnonzero(where).tolist()
    return found


def _mask(where: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.array(where)


def _signs_of_life(messages: Any) -> list[dict[str, Any]]:
    """The first and the last message of each incarnation of a process, as rows that tell that it lives."""
    spans = messages.group_by(["process", "incarnation"]).aggregate([("index", "min"), ("index", "max")]).to_pylist()
    return [
        {
            "process": span["process"],
            "incarnation": span["incarnation"],
            "index": span[end],
            "event": "message",
            "whole": False,
        }
        for span in spans
        for end in ("index_min", "index_max")
        if end == "index_min" or span["index_min"] != span["index_max"]
    ]


def _numbers(table: Any, name: str, missing: int) -> np.ndarray:
    column = table[name].fill_null(missing)
    return column.to_numpy(zero_copy_only=False).astype(np.int64) if len(column) else np.zeros(0, dtype=np.int64)


def _view(row: dict[str, Any]) -> View:
    kind = row["kind"] or "regular"
    return View(kind, frozenset(row["members"] or ()), row["seq"] or 0, row["primary"], row["previous"])
