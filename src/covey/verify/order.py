"""The ordering properties of one group: by certificate first, and by a search where there is none.

Where the ordinals of a trace are right they are a logical time. Each installation and each delivery has a label:

    regular installation       (seq, 0)
    delivery                   (seq of the regular configuration, 2 · ordinal)
    transitional installation  (seq of the configuration that it ends, 2k + 1), k the last ordinal delivered there

Where all rows of one configuration or message have one label, labels grow along every local log, and a message's label
exceeds those before its send, no graph of precedes has a cycle, whatever is merged. A trace without such labels may be
right all the same: its graph is searched.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from covey.verify.group import NOWHERE, Group, Violation

TOLD_MAX = 12
"""So many steps of a cycle are told."""


def is_certified(group: Group) -> bool:
    """Whether the labels are a logical time."""
    deliveries, sends = group.deliveries, group.sends
    seqs = np.array([group.views[name].seq if name in group.views else NOWHERE for name in group.configs])
    regs = group.reg_of(deliveries.config)
    if (deliveries.ordinal == NOWHERE).any() or (regs < 0).any() or (len(regs) and (seqs[regs] < 0).any()):
        return False
    major = seqs[regs] if len(regs) else regs
    if not _agree(deliveries.message, major, deliveries.ordinal):
        return False
    installs = _installations(group)
    if installs is None:
        return False
    minor = 2 * deliveries.ordinal
    delivered = np.stack([deliveries.process, deliveries.index, major, minor, np.zeros_like(major)])
    messages, first = np.unique(deliveries.message, return_index=True)
    is_known = np.isin(sends.message, messages)
    at = first[np.searchsorted(messages, sends.message[is_known])]
    sent = np.stack([sends.process[is_known], sends.index[is_known], major[at], minor[at], np.ones_like(at)])
    who, index, label_major, label_minor, is_send = np.concatenate([delivered, installs, sent], axis=1)
    order = np.lexsort((index, who))
    return _grow(who[order], label_major[order], label_minor[order], is_send[order].astype(bool))


def _agree(keys: np.ndarray, major: np.ndarray, minor: np.ndarray) -> bool:
    """Whether equal keys have equal labels, and different ones different labels."""
    rows = np.unique(np.stack([keys, major, minor], axis=1), axis=0) if len(keys) else np.zeros((0, 3))
    return len(rows) == len(np.unique(keys))


def _installations(group: Group) -> np.ndarray | None:
    """The labels of installations; None where one configuration has several."""
    deliveries = group.deliveries
    order = np.lexsort((deliveries.ordinal, deliveries.config, deliveries.who))
    keys = np.stack([deliveries.who, deliveries.config])[:, order]
    is_last = np.append((keys[:, 1:] != keys[:, :-1]).any(axis=0), True)[: len(order)]
    tails = zip(*keys[:, is_last].tolist(), deliveries.ordinal[order][is_last].tolist(), strict=True)
    last = {(who, config): ordinal for who, config, ordinal in tails}
    rows = []
    labels: dict[str, tuple[int, int]] = {}
    tops: dict[str, int] = {}
    for stay in group.all_stays:
        if not stay.is_regular:
            mine = last.get((stay.who, group.code("config", stay.reg)), 0)
            tops[stay.config] = max(tops.get(stay.config, 0), mine)
    for stay in group.all_stays:
        label = (stay.view.seq, 0)
        if not stay.is_regular:
            if stay.reg not in group.views:
                return None
            label = (group.views[stay.reg].seq, 2 * tops[stay.config] + 1)
        if labels.setdefault(stay.config, label) != label:
            return None
        rows.append((group.code("process", stay.event[0]), stay.event[1], *label, 0))
    return np.array(rows, dtype=np.int64).reshape(-1, 5).T


def _grow(who: np.ndarray, major: np.ndarray, minor: np.ndarray, is_send: np.ndarray) -> bool:
    """Whether labels grow along each log, and sends lie above all before them."""
    if not len(who):
        return True
    _, place = np.unique(np.stack([major, minor], axis=1), axis=0, return_inverse=True)
    place = place.reshape(-1).astype(np.int64)
    top = int(place.max()) + 2
    height = np.where(is_send, -1, place) + who * top
    highest = np.maximum.accumulate(np.concatenate([[-1], height]))[:-1]
    floor = who * top - 1
    return bool((place + who * top > np.maximum(highest, floor)).all())


# ---- the search --------------------------------------------------------------------------------

Row = tuple[int, int, str, int]
"""Process, index, event, and the code of the message or the configuration."""


def rows_of(group: Group) -> list[Row]:
    """Every event, in the local order of each process."""
    rows: list[Row] = []
    for event, columns in (("send", group.sends), ("deliver", group.deliveries)):
        events = [event] * len(columns.who)
        rows += zip(columns.process.tolist(), columns.index.tolist(), events, columns.message.tolist(), strict=True)
    for process, turns in group.turns.items():
        for turn in turns:
            if turn.event == "message":
                continue
            code = group.code("config", turn.config) if turn.config and turn.event == "config" else NOWHERE
            rows.append((process, turn.index, turn.event, code))
    return sorted(rows)


class Graph:
    """Precedes: local order and send → deliver, among the nodes that events become."""

    def __init__(self, group: Group, merge_installations: bool, merge_deliveries: np.ndarray | None) -> None:
        """`merge_deliveries` says of which deliveries those of one message become one node; None for of none."""
        self.rows = rows_of(group)
        self.nodes: dict[Any, int] = {}
        self.shown: list[Row] = []
        merged = set()
        if merge_deliveries is not None:
            places = group.deliveries.process[merge_deliveries], group.deliveries.index[merge_deliveries]
            merged = set(zip(*(each.tolist() for each in places), strict=True))
        at: list[int] = []
        for row in self.rows:
            is_one = merge_installations if row[2] == "config" else row[:2] in merged
            at.append(self._node(row[2:] if is_one else row[:2], row))
        self.after: list[list[int]] = [[] for _ in self.nodes]
        sends: dict[int, list[int]] = {}
        deliveries: dict[int, set[int]] = {}
        for place, (row, node) in enumerate(zip(self.rows, at, strict=True)):
            if place and self.rows[place - 1][0] == row[0]:
                self.after[at[place - 1]].append(node)
            if row[2] == "send":
                sends.setdefault(row[3], []).append(node)
            elif row[2] == "deliver":
                deliveries.setdefault(row[3], set()).add(node)
        for message, nodes in sends.items():
            for node in nodes:
                self.after[node] += sorted(deliveries.get(message, ()))

    def _node(self, key: Any, row: Row) -> int:
        if key not in self.nodes:
            self.nodes[key] = len(self.nodes)
            self.shown.append(row)
        return self.nodes[key]

    def cycle(self) -> list[Row]:
        """The events of a cycle, in their order; none where there is none."""
        incoming = [0] * len(self.after)
        for targets in self.after:
            for to in targets:
                incoming[to] += 1
        ready = [node for node, count in enumerate(incoming) if not count]
        while ready:
            for to in self.after[ready.pop()]:
                incoming[to] -= 1
                if not incoming[to]:
                    ready.append(to)
        back = {to: node for node, targets in enumerate(self.after) if incoming[node] for to in targets if incoming[to]}
        if not back:
            return []
        path = [next(iter(back))]
        while back[path[-1]] not in path:  # what is left has something left before it
            path.append(back[path[-1]])
        return [self.shown[node] for node in reversed(path[path.index(back[path[-1]]) :])]

    def leads(self, one: Any, other: Any) -> bool:
        """Whether there is a path."""
        todo, seen = [self.nodes[one]], {self.nodes[one]}
        while todo:
            for to in self.after[todo.pop()]:
                if to == self.nodes[other]:
                    return True
                if to not in seen:
                    seen.add(to)
                    todo.append(to)
        return False


def cycle(
    group: Group, *, merge_installations: bool, merge_deliveries: np.ndarray | None = None
) -> Iterator[Violation]:
    """Find a cycle in precedes, with what is merged into one node (`Graph`)."""
    if _certified(group):
        return
    if rows := Graph(group, merge_installations, merge_deliveries).cycle():
        told = "; ".join(_say(group, row) for row in rows[:TOLD_MAX])
        events = tuple((group.processes[row[0]], row[1]) for row in rows[:TOLD_MAX])
        why = f"each precedes the next, and the last the first, so no logical time has them all: {told}"
        yield Violation(why, events)


def precedes(group: Group, one: str, other: str) -> bool:
    """Whether one configuration's installation precedes another's, all installations of each merged."""
    last = {stay.event[0]: stay.event[1] for stay in group.stays_in[other]}
    if any(name in last and index < last[name] for name, index in (stay.event for stay in group.stays_in[one])):
        return True
    return _graph(group).leads(("config", group.code("config", one)), ("config", group.code("config", other)))


def reached(group: Group, nodes: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Return the pairs of these events, by their places, of which the first precedes the second."""
    graph = Graph(group, merge_installations=False, merge_deliveries=None)
    marks = [0] * len(graph.after)
    for place, key in enumerate(nodes):
        marks[graph.nodes[key]] |= 1 << place
    todo = list(range(len(graph.after)))
    while todo:
        node = todo.pop()
        for to in graph.after[node]:
            if marks[node] & ~marks[to]:
                marks[to] |= marks[node]
                todo.append(to)
    for other, key in enumerate(nodes):
        before = marks[graph.nodes[key]]
        yield from ((one, other) for one in range(len(nodes)) if before >> one & 1)


@lru_cache(maxsize=1)
def _certified(group: Group) -> bool:
    return is_certified(group)


@lru_cache(maxsize=1)
def _graph(group: Group) -> Graph:
    return Graph(group, merge_installations=True, merge_deliveries=None)


def _say(group: Group, row: Row) -> str:
    who, _, event, code = row
    if event == "config":
        return f"{group.processes[who]} installs {group.configs[code]}"
    return f"{group.processes[who]} {event}s" + (f" {group.message(code)}" if event in ("send", "deliver") else "")
