"""A stream becomes one file of the same rows, or stays as it is."""

import os
from pathlib import Path

import msgspec
import pytest

from covey.trace import TraceError
from covey.trace.closing import Closed, close_stream
from covey.trace.parquet import write_parquet
from covey.trace.stream import MAGIC, frame
from tests.trace.rows import HEADER, Columns, columns_of, row, send, write

ROWS = [HEADER, row("start", 1), send(2, 1, vt={"g": {"p": 1}}, label=[1, 2])]


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    return write_stream(tmp_path / "p.rows", *ROWS)


def write_stream(path: Path, *rows: Columns, torn: bytes = b"") -> Path:
    """A stream with a batch for each row."""
    path.write_bytes(MAGIC + b"".join(frame(msgspec.msgpack.encode([each])) for each in rows) + torn)
    return path


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_stream_becomes_a_file_of_its_rows(stream: Path, format: str) -> None:
    target = stream.with_suffix(f".{format}")
    assert close_stream(stream, format) == Closed(stream, target, 3, 0, False)
    assert os.listdir(stream.parent) == [target.name]
    assert columns_of(target) == ROWS


def test_what_a_crash_tore_off_is_left_out_and_counted(tmp_path: Path) -> None:
    stream = write_stream(tmp_path / "p.rows", *ROWS, torn=frame(b"never finished")[:-1])
    assert close_stream(stream)[2:4] == (3, 25)
    assert columns_of(tmp_path) == ROWS


@pytest.mark.parametrize("left", [b"", MAGIC[:3], MAGIC, MAGIC + b"\1\2"])
def test_a_stream_without_rows_is_removed(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "p.rows").write_bytes(left)
    closed = close_stream(tmp_path / "p.rows")
    assert (closed.target, closed.rows) == (None, 0)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_closing_that_was_interrupted_is_finished_by_doing_it_again(stream: Path, format: str) -> None:
    target, data = stream.with_suffix(f".{format}"), stream.read_bytes()
    target.with_name(f"{target.name}.tmp").write_text("half of an earlier attempt")
    close_stream(stream, format)
    stream.write_bytes(data)  # as if it had died just before it removed the stream
    assert close_stream(stream, format) == Closed(stream, target, 3, 0, False)
    assert os.listdir(stream.parent) == [target.name]
    assert columns_of(target) == ROWS


@pytest.mark.parametrize(
    "there", [ROWS[:2], [*ROWS, row("stop", 3)], [*ROWS[:2], send(2, 9)], []], ids=["fewer", "more", "other", "none"]
)
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_file_of_that_name_with_other_rows_is_kept_and_so_is_the_stream(
    stream: Path, format: str, there: list[Columns]
) -> None:
    target = stream.with_suffix(f".{format}")
    if format == "jsonl":
        write(target, *there)
    else:
        write_parquet(target, iter(there))
    before = (stream.read_bytes(), target.read_bytes())
    with pytest.raises(TraceError, match=rf"p\.rows, row \d: p\.{format} is there already, and does not have this row"):
        close_stream(stream, format)
    assert (stream.read_bytes(), target.read_bytes()) == before


def test_a_row_that_is_wrong_keeps_the_stream_from_becoming_parquet(tmp_path: Path) -> None:
    stream = write_stream(tmp_path / "p.rows", HEADER, row("start", -1))
    with pytest.raises(TraceError, match=r"p\.rows, row 2: column index: expected int >= 0"):
        close_stream(stream)
    assert os.listdir(tmp_path) == ["p.rows"]


def test_a_row_that_is_wrong_can_be_looked_at_as_json(tmp_path: Path) -> None:
    stream = write_stream(tmp_path / "p.rows", HEADER, row("start", -1))
    assert close_stream(stream, "jsonl").rows == 2
    assert '"index":-1' in (tmp_path / "p.jsonl").read_text()


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_damaged_stream_is_not_closed(stream: Path, format: str) -> None:
    damaged = bytearray(stream.read_bytes())
    damaged[-1] ^= 1
    stream.write_bytes(damaged)
    with pytest.raises(TraceError, match=r"p\.rows: the batch at byte \d+ is damaged"):
        close_stream(stream, format)
    assert os.listdir(stream.parent) == ["p.rows"]
    assert stream.read_bytes() == damaged


@pytest.mark.usefixtures("without_arrow")
def test_without_pyarrow_it_becomes_json_lines(stream: Path) -> None:
    closed = close_stream(stream, "parquet")
    assert (closed.target, closed.without_arrow) == (stream.with_suffix(".jsonl"), True)
    assert columns_of(stream.parent) == ROWS
