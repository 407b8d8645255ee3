"""What one row must keep by itself, and what it says when it does not."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from covey.kernel.ids import MessageId
from covey.trace import TraceError
from covey.trace.row import ordered, parse_row
from covey.trace.schema import COLUMNS, COMMON, EVENTS, INT, LONG
from tests.trace.rows import HEADER, Columns, as_read, random_rows, row, send, values

FILE = Path("out/p.jsonl")


@given(random_rows())
def test_every_row_of_the_tables_is_taken_as_it_is(columns: Columns) -> None:
    assert parse_row(dict(columns), FILE, 1).columns == as_read(columns)


def complete(event: str) -> Columns:
    """A row with every column of the event."""
    own = {name: EXAMPLES[name] for name in EVENTS[event].columns}
    return {**(HEADER if event == "run" else row(event, 7)), **own}


EXAMPLES: Columns = {
    "message": "p/1/3",
    "count": 1,
    "config": "v1",
    "kind": "regular",
    "members": ["p", "q"],
    "seq": 4,
    "primary": True,
    "previous": "v0",
    "ordinal": 9,
    "master": ["p", "q"],
    "service": "safe",
    "label": [1, 2],
    "dests": ["q"],
    "vt": {"g": {"p": 1}},
    "size": 64,
    "action": "join",
    "subject": "q/2",
    "request": "c-1",
    "number": 5,
    "client": "c",
    "op": "update",
    "body": "set k v",
    "position": 1,
    "result": "ok",
    "turn": 1,
    "item": "x",
    "mode": "write",
    "digest": "ab",
    "counters": {"sent": 2},
    "recovered": False,
    "model": ["evs", "vs"],
    "complete": True,
    "healed": False,
    "universe": ["p", "q"],
}


@pytest.mark.parametrize("event", EVENTS)
def test_a_row_may_have_every_column_of_its_event(event: str) -> None:
    assert parse_row(complete(event), FILE, 1).columns == complete(event)


@pytest.mark.parametrize(
    ("event", "name"), [(event, name) for event in EVENTS for name in (*COMMON, *EVENTS[event].required)]
)
def test_a_row_without_a_column_that_it_needs_is_an_error(event: str, name: str) -> None:
    columns = {key: value for key, value in complete(event).items() if key != name}
    with pytest.raises(TraceError, match=rf"^out/p\.jsonl, line 3: .*column {name}\b.*missing"):
        parse_row(columns, FILE, 3)


@pytest.mark.parametrize(("event", "name"), [(event, name) for event in EVENTS for name in EVENTS[event].optional])
def test_a_row_may_lack_the_other_columns_and_a_null_is_a_lack(event: str, name: str) -> None:
    columns = {key: value for key, value in complete(event).items() if key != name}
    assert parse_row({**columns, name: None}, FILE, 1).columns == columns


WRONG: dict[str, tuple[Any, ...]] = {
    "string": (1, True, ["p"]),
    "message": (1, ["p", 1, 1]),
    "int": ("1", 1.0, True, 0, INT + 1),
    "long": ("1", 1.0, True, LONG + 1, -LONG - 2),
    "bool": (1, "true"),
    "strings": (1, [1], [None], {"p": 1}),
    "json": (1.5, True, ["a"], [LONG + 1], {}),
    "counts": (1, [], {"sent": "2"}, {"sent": None}, {"sent": LONG + 1}),
    "clocks": (1, [], {"g": 1}, {"g": {"p": "1"}}, {"g": {"p": 1.0}}),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, column in COLUMNS.items() if name != "event" for value in WRONG[column.arrow]],
)
def test_a_value_of_another_type_is_an_error_that_names_the_column(name: str, value: Any) -> None:
    event = next(event for event in EVENTS if name in (*COMMON, *EVENTS[event].columns))
    with pytest.raises(TraceError, match=rf"^out/p\.jsonl, line 3: column {name}\b.*: "):
        parse_row({**complete(event), name: value}, FILE, 3)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (row("elect", 1), "unknown event 'elect'; the events are run, start,"),
        (row("start", 1, event=["start"]), r"unknown event \['start'\]"),
        (row("start", -1), "column index: expected int >= 0"),
        (row("start", 1, process=""), "process is empty"),
        ({**HEADER, "process": "p"}, 'the header of a run has process "" and index 0'),
        ({**HEADER, "index": 1}, 'the header of a run has process "" and index 0'),
        ({**HEADER, "model": "tcp"}, "column model: invalid enum value 'tcp'"),
        ({**HEADER, "model": ["evs", "tcp"]}, r"column model\[1\]: invalid enum value 'tcp'"),
        ({**HEADER, "model": []}, "column model: expected array of length >= 1"),
        (row("config", 1, config="v", kind="odd"), "column kind: invalid enum value 'odd'"),
        (send(1, 1, service="best"), "column service: invalid enum value 'best'"),
        (send(1, 1, size=-1), "column size: expected int >= 0"),
        (send(1, 1, action="promote"), "column action: invalid enum value 'promote'"),
        (send(1, 1, subject="q"), "column subject: 'q' is not process/incarnation"),
        (send(1, 1, message="p/1"), "column message: 'p/1' is not process/incarnation/number"),
        (send(1, 1, message="p/0/1"), "'p/0/1' is not process"),
        (send(1, 1, message="p/01/1"), "'p/01/1' is not process"),
        (send(1, 1, message="p/1/-1"), "'p/1/-1' is not process"),
        (send(1, 1, message="/1/1"), "column message: the process of '/1/1' has no name"),
        (send(1, 1, message=f"p/{INT + 1}/1"), "beyond 32 bits of incarnation or 64 of number"),
        (send(1, LONG + 1), "beyond 32 bits of incarnation or 64 of number"),
        (send(1, LONG, count=2), "beyond 32 bits of incarnation or 64 of number"),
        (send(1, 1, message=f"p/{'9' * 5000}/1"), "column message: 'p/9{98}' is not process/"),
        (send(1, 1, count=0), "column count: expected int >= 1"),
        (send(LONG, 1, count=2), f"column index: {LONG} with count 2 goes beyond 64 bits"),
        (row("deliver", 1, message="p/1/1", count=2, ordinal=LONG), "column ordinal: .* goes beyond 64 bits"),
        (row("accept", 1, number=LONG, count=2), "column number: .* goes beyond 64 bits"),
        (row("start", 1, count=2), "a start row has count 2; only send, deliver, safe, accept stand for several"),
        (row("reject", 1), "a reject row needs one of the columns number, message"),
        (row("lock", 1, client="c", item="x", mode="both"), "column mode: invalid enum value 'both'"),
    ],
)
def test_a_row_that_breaks_a_rule_is_an_error(columns: Columns, complaint: str) -> None:
    with pytest.raises(TraceError, match=rf"^out/p\.jsonl, line 3: .*{complaint}"):
        parse_row(columns, FILE, 3)


@pytest.mark.parametrize(
    "columns",
    [
        send(LONG, LONG),
        send(1, 1, message=f"p/{INT}/{LONG - 1}", count=2),
        send(1, 10**18, count=10**18 + 1),
        send(1, 1, message="a/b/\n/2/0"),
        send(1, 1, label="b"),
        send(1, 1, label=-1),
        row("reject", 1, number=3),
        row("reject", 1, message="p/1/1"),
        row("start", 1, incarnation=INT, count=1),
        row("config", 1, config="v", master="p"),
    ],
)
def test_a_row_at_the_edge_of_a_rule_is_taken(columns: Columns) -> None:
    parse_row(columns, FILE, 1)


@pytest.mark.parametrize("columns", [{**HEADER, "model": "evs"}, row("config", 1, config="v", master="p")])
def test_one_model_or_master_is_a_list_of_one(columns: Columns) -> None:
    assert parse_row(dict(columns), FILE, 1).columns == as_read(columns)


def test_unknown_columns_are_kept() -> None:
    assert parse_row(row("start", 1, rack={"row": [1, 2.5]}), FILE, 1).columns["rack"] == {"row": [1, 2.5]}


def test_a_row_says_what_it_occupies_and_where_it_stands() -> None:
    found = parse_row(send(5, 7, count=3), FILE, 9)
    assert (found.run, found.process, found.incarnation, found.event) == ("r", "p", 1, "send")
    assert (found.index, found.count, found.last) == (5, 3, 7)
    assert found.message == MessageId("p", 1, 7)
    assert str(found.place) == "out/p.jsonl, line 9"
    assert "out/p.jsonl, line 9" in repr(found)


def test_a_row_without_a_count_stands_for_one() -> None:
    found = parse_row(row("start", 5), FILE, 1)
    assert (found.count, found.last, found.message) == (1, 5, None)


def test_places_count_rows_where_there_are_no_lines() -> None:
    assert str(parse_row(row("start", 1), Path("p.parquet"), 4).place) == "p.parquet, row 4"


@given(random_rows())
def test_columns_are_put_in_the_order_of_the_format_and_unknown_ones_last(columns: Columns) -> None:
    names = list(ordered(dict(reversed(columns.items()))))
    known = [name for name in names if name in COLUMNS]
    assert names[: len(known)] == known == [name for name in COLUMNS if name in columns]


@given(values(COLUMNS["message"].type))
def test_whatever_is_no_message_id_is_an_error_and_nothing_else(text: str) -> None:
    with suppress(TraceError):
        parse_row(send(1, 1, message=text), FILE, 1)
