"""What judges share: a property as two questions, and the rows of a run by group and process."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.evs.judge import Violation
from tests.verify.runs import written_out

Row = dict[str, Any]

WHOLE = ("start", "fail", "stop")
"""The events that, with group "", belong to every group."""


class Property(NamedTuple):
    """One promise, and how the rows of one group are judged by it."""

    id: str
    search: Callable[[Any], Iterator[str]]
    """What contradicts it, a sentence each."""
    lacks: Callable[[Any], str]
    """Why it cannot be judged; empty if it can be."""


def violations(properties: Iterable[Property], groups: Iterable[Any]) -> list[Violation]:
    """What the groups of a run violate."""
    groups = list(groups)
    return [
        Violation(each.id, why)
        for each in properties
        for group in groups
        if not each.lacks(group)
        for why in each.search(group)
    ]


def without_evidence(properties: Iterable[Property], groups: Iterable[Any]) -> dict[str, str]:
    """The properties that no group of a run can be judged by, each with the reason."""
    groups = list(groups)
    reasons = {each.id: [each.lacks(group) for group in groups] for each in properties}
    return {id: found[0] for id, found in reasons.items() if all(found)}


def groups(rows: Iterable[Row]) -> Iterator[tuple[Row, dict[str, list[Row]]]]:
    """The header and, for each group, what its processes wrote, a row a message, in local order."""
    header, *events = sorted(written_out(rows), key=lambda row: (row["process"], row["index"]))
    assert header["event"] == "run", "the process of a header sorts first"
    names = sorted({row["group"] for row in events if row["event"] not in WHOLE}) or [""]
    for name in names:
        processes: dict[str, list[Row]] = {}
        for row in events:
            if row["group"] == name or (row["group"] == "" and row["event"] in WHOLE):
                processes.setdefault(row["process"], []).append(row)
        yield header, processes


def process_of(message: str) -> str:
    """The process in a message's id, which may hold any character."""
    return message.rsplit("/", 2)[0]


def is_prefix(one: list[Any], other: list[Any]) -> bool:
    return other[: len(one)] == one
