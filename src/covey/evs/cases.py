"""What cases a run reached, read off its trace: whether many runs try what they should is seen by counting them.

Only the rows of one run are looked at, and whatever they say is believed: to judge them is another matter.

A *merge* is a regular configuration whose members come directly from different regular ones, a *partition* one
whose members go to different ones; *primary component* is the case of a run that had one, *no primary component* of
a run that has none at its end. A step is one of the recovery in the paper: who fails in step 6 is in a transitional
configuration.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from covey.kernel.ids import MessageId

Row = Mapping[str, Any]

MANY = 20
"""More messages than that are many."""
SERVICES = ("causal", "agreed", "safe")
COUNTED = {
    "rebroadcast": "rebroadcast",
    "holes": "hole",
    "discarded": "discarded",
    "obliged": "obligation used",
    "interrupted at step 3": "interrupted at step 3",
    "interrupted at step 5a": "interrupted at step 5a",
    "interrupted at step 5c": "interrupted at step 5c",
}
"""What a process says of a recovery, in the counters of a `state` row, and the case that it is."""


def cases(rows: Sequence[Row]) -> set[str]:
    """Return the cases that a run reached, by their names."""
    lives = _lives(rows)
    found = _of_messages(rows) | _of_lives(lives) | _of_recoveries(rows)
    return found | _of_changes(lives) | _of_deliveries(rows) | _of_the_end(rows, lives)


def _lives(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    """The rows of each incarnation, in its order."""
    lives: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["event"] != "run":
            lives[row["process"], row["incarnation"]].append(row)
    return {life: sorted(own, key=lambda row: row["index"]) for life, own in lives.items()}


def _of_messages(rows: Iterable[Row]) -> set[str]:
    sent = [(row.get("service"), row.get("count", 1)) for row in rows if row["event"] == "send"]
    found = {f"{service} messages" for service, _ in sent if service in SERVICES}
    return found | ({f"more than {MANY} messages"} if sum(count for _, count in sent) > MANY else set())


def _of_lives(lives: Mapping[tuple[str, int], Sequence[Row]]) -> set[str]:
    """How processes came and went; one that lost its storage has a name with a `~` in it."""
    found = set()
    for (name, _), rows in lives.items():
        kind = ""
        for row in rows:
            match row["event"]:
                case "start" if row.get("recovered"):
                    found.add("recovery with storage")
                case "start" if "~" in name:
                    found.add("return under a new name")
                case "config":
                    kind = row.get("kind", "regular")
                case "fail":
                    found |= {"crash", "crash in step 6"} if kind == "transitional" else {"crash"}
                case "stop":
                    found.add("stop")
    return found


def _of_recoveries(rows: Iterable[Row]) -> set[str]:
    counters = [row["counters"] for row in rows if row["event"] == "state" and "counters" in row]
    return {case for name, case in COUNTED.items() if any(each.get(name, 0) > 0 for each in counters)}


# ---- configurations ----------------------------------------------------------------------------


def _is_regular(row: Row) -> bool:
    return bool(row["event"] == "config" and row.get("kind", "regular") == "regular")


def _of_changes(lives: Mapping[tuple[str, int], Sequence[Row]]) -> set[str]:
    """Merges, partitions, and primary components that ended: from one regular configuration to the next."""
    before: dict[str, dict[str, Row]] = defaultdict(dict)
    after: dict[str, set[str]] = defaultdict(set)
    found = set()
    for rows in lives.values():
        for last, row in pairwise(row for row in rows if _is_regular(row)):
            before[row["config"]][last["config"]] = last
            after[last["config"]].add(row["config"])
            if last.get("primary") and not row.get("primary"):
                found.add("out of the primary component")
    for merged in before.values():
        if len(merged) > 1:
            found.add("merge of two" if len(merged) == 2 else "merge of three or more")
        if sum(len(row.get("members", ())) > 1 for row in merged.values()) > 1:
            found.add("merge of rings of several")
    return found | ({"partition"} if any(len(parts) > 1 for parts in after.values()) else set())


def _of_deliveries(rows: Iterable[Row]) -> set[str]:
    """What was delivered in transitional configurations."""
    rows = list(rows)
    transitional = {row["config"] for row in rows if row["event"] == "config" and row.get("kind") == "transitional"}
    inside = [row["message"] for row in rows if row["event"] == "deliver" and row.get("config") in transitional]
    if not inside:
        return set()
    found = {"delivery in a transitional configuration"}
    safe = _safe_messages(rows)
    if any(_is_among(MessageId.parse(message), safe) for message in inside):
        found.add("safe delivery in a transitional configuration")
    return found


Ranges = dict[tuple[str, int], list[tuple[int, int]]]
"""For each incarnation ranges of its messages: the first, and the one behind the last."""


def _safe_messages(rows: Iterable[Row]) -> Ranges:
    ranges: Ranges = defaultdict(list)
    for row in rows:
        if row["event"] == "send" and row.get("service") == "safe":
            process, incarnation, number = MessageId.parse(row["message"])
            ranges[process, incarnation].append((number, number + row.get("count", 1)))
    return {life: sorted(own) for life, own in ranges.items()}


def _is_among(message: MessageId, ranges: Ranges) -> bool:
    own = ranges.get((message.process, message.incarnation), [])
    place = bisect_right(own, message.number, key=lambda each: each[0])
    return place > 0 and message.number < own[place - 1][1]


def _of_the_end(rows: Iterable[Row], lives: Mapping[tuple[str, int], Sequence[Row]]) -> set[str]:
    found = set()
    for header in (row for row in rows if row["event"] == "run"):
        if header["complete"]:
            found.add("at rest, whole" if header["healed"] else "at rest, in parts")
    up = [own for own in lives.values() if own[-1]["event"] not in ("fail", "stop")]
    last = [next((row for row in reversed(own) if _is_regular(row)), None) for own in up]
    if any(row.get("primary") for own in lives.values() for row in own if _is_regular(row)):
        found.add("primary component")
    if not any(row is not None and row.get("primary") for row in last):
        found.add("no primary component")
    return found
