"""JSON Lines are read strictly: what two parsers could take for two rows is an error."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.trace import TraceError
from covey.trace.errors import MEND
from covey.trace.jsonl import CUT_SHORT, decode_line, encode_lines, read_lines, write_lines
from covey.trace.schema import COLUMNS
from tests.trace.rows import Columns, random_rows

FILE = Path("out/p.jsonl")


@given(st.lists(random_rows(), max_size=5))
def test_what_is_written_is_read(rows: list[Columns]) -> None:
    lines = b"".join(encode_lines(rows)).splitlines(keepends=True)
    assert [decode_line(line, FILE, 1) for line in lines] == rows


@given(random_rows())
def test_the_order_in_which_the_columns_of_the_format_came_does_not_show(columns: Columns) -> None:
    known = {name: columns[name] for name in reversed(columns) if name in COLUMNS}
    assert [*encode_lines([{**known, **columns}])] == [*encode_lines([columns])]


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (b'{"a":1}\n', {"a": 1}),
        (b'{"a":1}', {"a": 1}),
        (b' { "a" : 1 } \r\n', {"a": 1}),
        (b'{"\\u0061":"\\u0062\\/"}\n', {"a": "b/"}),
        (b'{"a":1e2,"b":1.50}\n', {"a": 100.0, "b": 1.5}),
        ('{"ä\u2028":"🐦"}\n'.encode(), {"ä\u2028": "🐦"}),
        (b'{"a":{"b":1},"b":{"b":1}}\n', {"a": {"b": 1}, "b": {"b": 1}}),
    ],
)
def test_any_way_to_write_an_object_is_read(line: bytes, columns: Columns) -> None:
    assert decode_line(line, FILE, 1) == columns


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"\n", "the line is empty"),
        (b"  \r\n", "the line is empty"),
        (b'\xef\xbb\xbf{"a":1}\n', "the file begins with a byte order mark"),
        (b'{"a":1\n', "it is not JSON"),
        (b"{'a':1}\n", "it is not JSON"),
        (b'{"a":1,}\n', "it is not JSON"),
        (b'{"a":1}{"a":1}\n', "it is not JSON"),
        (b'{"a":01}\n', "it is not JSON"),
        (b'{"a":NaN}\n', "it is not JSON"),
        (b'{"a":1e999}\n', "it is not JSON"),
        (b'{"a":"\xff"}\n', "it is not JSON"),
        (b'{"a":"\\ud800"}\n', "it is not JSON"),
        (b'{"a":' + b"[" * 100_000 + b"\n", "it is not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}\n", "it is not JSON"),
        (b"[1]\n", r"a row is a JSON object, not \[1\]"),
        (b"null\n", "a row is a JSON object, not null"),
        (b'{"a":1,"a":1}\n', "the key 'a' stands there twice"),
        (b'{"a":1,"\\u0061":1}\n', "the key 'a' stands there twice"),
        (b'{"vt":{"g":1,"h":1,"g":2}}\n', "the key 'g' stands there twice"),
    ],
)
def test_a_malformed_line_is_an_error_with_its_place(line: bytes, complaint: str) -> None:
    with pytest.raises(TraceError, match=rf"^out/p\.jsonl, line 7: {complaint}") as caught:
        decode_line(line, FILE, 7)
    assert (caught.value.file, caught.value.number, caught.value.remedy) == (FILE, 7, MEND)


def test_a_line_cut_at_any_byte_is_told_from_a_wrong_one() -> None:
    line = '{"a":"é\\n","b":[1,true,null],"c":{"d":-1.5}}'.encode()
    for end in range(1, len(line)):
        with pytest.raises(TraceError) as caught:
            decode_line(line[:end], FILE, 1)
        assert (caught.value.what, caught.value.remedy) == ("the file ends in the middle of this row", CUT_SHORT)


def test_a_last_line_with_a_repeated_key_is_wrong_not_cut() -> None:
    with pytest.raises(TraceError, match="stands there twice") as caught:
        decode_line(b'{"a":1,"a":2}', FILE, 1)
    assert caught.value.remedy == MEND


def test_lines_are_counted_from_one(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":2}\n{"a":\n{"a":3}\n')
    rows = read_lines(path)
    assert [next(rows), next(rows)] == [{"a": 1}, {"a": 2}]
    with pytest.raises(TraceError, match=r"p\.jsonl, line 3: "):
        next(rows)


def test_a_file_may_have_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    assert write_lines(path, ({"index": n} for n in range(10_000))) == 10_000
    assert [columns["index"] for columns in read_lines(path)] == list(range(10_000))


def test_a_file_that_cannot_be_finished_is_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"before")

    def rows() -> Iterator[Columns]:
        yield {"a": 1}
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_lines(path, rows())
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (b"before", [path])
