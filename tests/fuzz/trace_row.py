"""The columns of one row, as any of the encodings may hold them: they are a row, or an error that names it."""

from pathlib import Path
from typing import Any

import msgspec

from covey.trace.errors import TraceError
from covey.trace.row import Row, ordered, parse_row
from tests.fuzz import fuzz

FILE = Path("trace.rows")


def row(event: str, **columns: Any) -> dict[str, Any]:
    common = {"run": "r", "process": "a/b", "incarnation": 2, "index": 2 << 32, "time_ns": -5, "group": "g"}
    return {**common, "event": event, **columns}


ROWS = [
    row("run", process="", index=0, model=["evs", "vs"], complete=True, healed=False, universe=["a", "b"]),
    row("run", process="", index=0, model="isis85", complete=False, healed=False),
    row("start", recovered=True),
    row("config", config="v1", kind="regular", members=["a", "b"], seq=1, primary=True, master="a"),
    row("send", message="a/b/2/17", count=5, service="bcast", label=[1, 2], dests=["a"], vt={"g": {"a": 3}}, size=9),
    row("send", message="a/2/0", service="gbcast", action="join", subject="c/d/3"),
    row("deliver", message="a/2/0", ordinal=3, config="v1", unknown={"x": [1.5, None, "y"]}),
    row("accept", number=5, count=3, message=None),
    row("reject", message="a/2/3"),
    row("request", client="c", request="q", op="update", body="set K V"),
    row("state", position=3, digest="d", counters={"stored": 1}),
    row("lock", client="c", item="i", mode="read"),
]


def seeds() -> list[bytes]:
    return [msgspec.msgpack.encode(row) for row in ROWS]


def read(columns: dict[str, Any]) -> Row | str:
    try:
        return parse_row(columns, FILE, 7)
    except TraceError as error:
        return str(error)


def one_input(data: bytes) -> None:
    try:
        columns = msgspec.msgpack.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    found = read(columns)
    if isinstance(found, str):
        assert found.startswith("trace.rows, row 7: ")
        return
    assert found.last >= found.index >= 0
    assert found.message is None or found.message.incarnation >= 1
    assert ordered(found.columns) == found.columns
    again = read(dict(found.columns))
    assert isinstance(again, Row)
    assert again.columns == found.columns


if __name__ == "__main__":
    fuzz(seeds, one_input)
