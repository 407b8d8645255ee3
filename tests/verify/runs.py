"""Rows that stand for a run of messages, written out and put together again."""

from collections.abc import Iterable
from typing import Any

from covey.trace.schema import COUNTED

Row = dict[str, Any]


def written_out(rows: Iterable[Row]) -> list[Row]:
    """The same trace with a row for each message."""
    return [each for row in rows for each in _written_out(row)]


def in_runs(rows: Iterable[Row]) -> list[Row]:
    """The same trace with one row for what one row can stand for; each row goes on with the one before it, if any."""
    found: list[Row] = []
    for row in rows:
        last = found[-1] if found else {}
        is_counted = row["event"] in COUNTED and last.get("event") == row["event"]
        if is_counted and row == _nth(last, last.get("count", 1)):
            last["count"] = last.get("count", 1) + 1
        else:
            found.append(dict(row))
    return found


def _written_out(row: Row) -> list[Row]:
    return [_nth(row, place) for place in range(row["count"])] if "count" in row else [row]


def _nth(row: Row, place: int) -> Row:
    """What a row says of one of its messages: ids, numbers, ordinals and indexes count on, and so does the sender's own
    entry of its vector time, unless a message counts nothing there."""
    nth = {name: value for name, value in row.items() if name != "count"}
    for name in ("index", "ordinal", "number"):
        if name in nth:
            nth[name] += place
    if "message" in nth:
        origin, _, number = nth["message"].rpartition("/")
        nth["message"] = f"{origin}/{int(number) + place}"
    own = nth.get("vt", {}).get(nth["group"], {})
    if nth["process"] in own and nth.get("service") != "point":
        own = {**own, nth["process"]: own[nth["process"]] + place}
        nth["vt"] = {**nth["vt"], nth["group"]: own}
    return nth
