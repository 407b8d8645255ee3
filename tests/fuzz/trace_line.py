"""A line of JSON Lines: it is a row, or an error that names file and line."""

from pathlib import Path

from covey.trace.errors import TraceError
from covey.trace.jsonl import decode_line, encode_lines
from covey.trace.row import Row, parse_row
from tests.fuzz import fuzz
from tests.fuzz.trace_row import ROWS

FILE = Path("trace.jsonl")


def seeds() -> list[bytes]:
    spaced = b'{"run": "r", "process": "", "incarnation": 1, "index": 0, "time_ns": 0, "group": "", "event": "run", '
    return [
        *(line for row in ROWS for line in encode_lines([row])),
        spaced + b'"model": ["evs"], "complete": true, "healed": false, "note": {"a": [1.5e3, null, "\\u00e4"]}}\n',
        b'{"run":"r","run":"r"}\n',
        b"[]\n",
    ]


def read(data: bytes) -> Row | str:
    try:
        return parse_row(decode_line(data, FILE, 7), FILE, 7)
    except TraceError as error:
        return str(error)


def one_input(data: bytes) -> None:
    found = read(data)
    if isinstance(found, str):
        assert found.startswith("trace.jsonl, line 7: ")
        return
    (line,) = encode_lines([found.columns])
    again = read(line)
    assert isinstance(again, Row)
    assert again.columns == found.columns


if __name__ == "__main__":
    fuzz(seeds, one_input)
