"""Converting keeps every row; closing and trimming after a crash lose nothing that was flushed."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError, WorldError
from covey.trace import JsonLinesSink, Recorder, StreamSink, TraceError, check_trace
from covey.trace.closing import Closed
from covey.trace.convert import close_streams, convert_trace, trim
from covey.trace.jsonl import encode_lines
from covey.trace.parquet import write_parquet
from covey.trace.stream import MAGIC
from tests.trace.rows import HEADER, Columns, as_read, columns_of, random_rows, record, row, send, write


def convert(source: Path, target: Path, format: str) -> list[tuple[str, str, int]]:
    done = convert_trace(source, target, format)
    return [(each.source.name, each.target.relative_to(target).as_posix(), each.rows) for each in done]


@settings(max_examples=60)
@given(st.lists(random_rows(), max_size=4))
def test_any_rows_come_back_from_parquet_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Columns]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    (folder / "trace").mkdir()
    (folder / "trace/p.jsonl").write_bytes(b"".join(encode_lines(rows)))
    convert(folder / "trace", folder / "parquet", "parquet")
    convert(folder / "parquet", folder / "again", "jsonl")
    assert columns_of(folder / "parquet") == columns_of(folder / "again") == [as_read(each) for each in rows]
    assert (folder / "again/p.jsonl").read_bytes() == b"".join(encode_lines(as_read(each) for each in rows))


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_trace_is_converted_file_by_file_and_the_source_stays(tmp_path: Path, format: str) -> None:
    source = tmp_path / "out"
    write(source / "a.jsonl", HEADER, row("start", 1))
    write(source / "sub/b.jsonl", send(2, 1))
    before = {path: path.read_bytes() for path in source.rglob("*.jsonl")}
    assert convert(source, tmp_path / "new/place", format) == [
        ("a.jsonl", f"a.{format}", 2),
        ("b.jsonl", f"sub/b.{format}", 1),
    ]
    assert columns_of(tmp_path / "new/place") == columns_of(source)
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_one_file_is_converted_into_a_folder(tmp_path: Path) -> None:
    file = write(tmp_path / "p.jsonl", HEADER)
    assert convert(file, tmp_path / "new", "parquet") == [("p.jsonl", "p.parquet", 1)]


def test_files_that_differ_only_in_their_suffix_stay_apart(tmp_path: Path) -> None:
    write(tmp_path / "out/a.jsonl", HEADER)
    write_parquet(tmp_path / "out/a.parquet", [row("start", 1)])
    write(tmp_path / "out/a.parquet.jsonl", row("start", 2))
    targets = [target for _, target, _ in convert(tmp_path / "out", tmp_path / "new", "jsonl")]
    assert sorted(os.listdir(tmp_path / "new")) == sorted(targets)
    assert sorted(each["index"] for each in columns_of(tmp_path / "new")) == [0, 1, 2]


def test_a_wrong_row_is_not_converted(tmp_path: Path) -> None:
    write(tmp_path / "out/p.jsonl", HEADER, row("elect", 1))
    with pytest.raises(TraceError, match=r"p\.jsonl, line 2: unknown event"):
        convert(tmp_path / "out", tmp_path / "new", "jsonl")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize("target", ["out", "out/sub", "out/../out/sub"])
def test_a_trace_is_not_converted_into_itself(tmp_path: Path, target: str) -> None:
    write(tmp_path / "out/p.jsonl", HEADER)
    with pytest.raises(MisuseError, match="converting into it would mix the two: choose another place"):
        convert(tmp_path / "out", tmp_path / target, "parquet")
    assert os.listdir(tmp_path / "out") == ["p.jsonl"]


@pytest.mark.parametrize("there", ["x.jsonl", "sub/x.parquet", "x.rows"])
def test_a_trace_is_not_converted_into_another(tmp_path: Path, there: str) -> None:
    write(tmp_path / "out/p.jsonl", HEADER)
    write(tmp_path / "new" / there)
    with pytest.raises(MisuseError, match="new holds a trace already; converting into it would mix the two"):
        convert(tmp_path / "out", tmp_path / "new", "parquet")


def test_a_stream_that_a_crash_left_is_converted_without_its_torn_end(tmp_path: Path) -> None:
    stream = crashed(tmp_path / "out/p")
    rows = columns_of_stream(tmp_path)
    with stream.open("ab") as file:
        file.write(b"torn")
    [done] = convert_trace(tmp_path / "out", tmp_path / "new", "jsonl")
    assert done.torn_bytes == 4
    assert columns_of(tmp_path / "new") == rows
    assert stream.exists()


def test_a_trace_that_is_still_written_is_not_converted(tmp_path: Path) -> None:
    with Recorder(StreamSink(tmp_path / "out/p")) as recorder:
        record(recorder)
        with pytest.raises(WorldError, match=r"p\.rows is still being written; wait until its process has ended"):
            convert(tmp_path / "out", tmp_path / "new", "jsonl")


# --- closing


def crashed(path: Path) -> Path:
    """The stream of a process that was killed."""
    sink = StreamSink(path)
    record(Recorder(sink))
    sink._file.close()  # what the system does with the files of a process that it kills
    return sink.path


def columns_of_stream(tmp_path: Path) -> list[Columns]:
    with Recorder(JsonLinesSink(tmp_path / "same/p")) as recorder:
        record(recorder)
    return columns_of(tmp_path / "same")


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_every_stream_that_a_crash_left_is_closed_where_it_is(tmp_path: Path, format: str) -> None:
    streams = [crashed(tmp_path / "out/p"), crashed(tmp_path / "out/sub/q")]
    done = list(close_streams(tmp_path / "out", format))
    assert done == [Closed(path, path.with_suffix(f".{format}"), 5, 0, False) for path in streams]
    assert columns_of(tmp_path / "out") == 2 * columns_of_stream(tmp_path)
    assert list(close_streams(tmp_path / "out", format)) == []


def test_a_stream_whose_process_still_runs_is_left_alone(tmp_path: Path) -> None:
    dead = crashed(tmp_path / "dead")
    with Recorder(StreamSink(tmp_path / "live")) as recorder:
        record(recorder)
        closed, left = close_streams(tmp_path, "parquet")
        assert isinstance(closed, Closed)
        assert (closed.source, left) == (dead, tmp_path / "live.rows")
        recorder.member("r", "p", 1).write(50, "stop")
    assert columns_of(tmp_path / "live.parquet")[-1]["event"] == "stop"


def test_a_stream_that_is_being_begun_is_not_lost(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p")
    assert list(close_streams(tmp_path, "parquet")) == [tmp_path / "p.rows"]
    record(Recorder(sink))
    sink.close()
    check_trace(tmp_path)


# --- trimming


def torn(path: Path, end: bytes) -> Path:
    write(path, HEADER, row("start", 1))
    with path.open("ab") as file:
        file.write(end)
    return path


def test_a_line_that_is_cut_anywhere_is_cut_off(tmp_path: Path) -> None:
    line = b"".join(encode_lines([send(2, 1, label="é")])).rstrip(b"\n")
    for end in range(1, len(line)):
        path = torn(tmp_path / "p.jsonl", line[:end])
        assert list(trim(tmp_path)) == [(path, end)]
        assert columns_of(path) == [HEADER, row("start", 1)]
    check_trace(tmp_path)


@pytest.mark.parametrize(
    "end", [b"", b"\n", b'{"a":1}', b'{"a":1,"a":2}', b"7", b'{"a":1\n', b'{"a":1}\n', b'{"a":1}\r\n']
)
def test_whatever_is_not_a_cut_line_stays(tmp_path: Path, end: bytes) -> None:
    path = torn(tmp_path / "p.jsonl", end)
    before = path.read_bytes()
    assert list(trim(tmp_path)) == []
    assert path.read_bytes() == before


def test_only_files_that_were_cut_are_touched(tmp_path: Path) -> None:
    whole = torn(tmp_path / "a.jsonl", b"")
    cut = torn(tmp_path / "b/b.jsonl", b'{"run"')
    (tmp_path / "empty.jsonl").touch()
    before = whole.stat().st_mtime_ns
    assert list(trim(tmp_path)) == [(cut, 6)]
    assert whole.stat().st_mtime_ns == before


def test_a_file_that_is_still_written_is_not_trimmed(tmp_path: Path) -> None:
    sink = JsonLinesSink(tmp_path / "p")
    sink._file.append(b'{"run"')
    with pytest.raises(WorldError, match="still being written"):
        list(trim(tmp_path))
    assert sink.path.read_bytes() == b'{"run"'


@pytest.mark.parametrize("left", [b"", MAGIC[:3]])
def test_a_stream_without_rows_converts_to_an_empty_file_of_no_rows(tmp_path: Path, left: bytes) -> None:
    write(tmp_path / "out/a.jsonl", HEADER)
    (tmp_path / "out/p.rows").write_bytes(left)
    assert [rows for _, _, rows in convert(tmp_path / "out", tmp_path / "new", "parquet")] == [1, 0]
    check_trace(tmp_path / "new")
