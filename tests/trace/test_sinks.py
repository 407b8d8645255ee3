"""Rows are in the file when `flush` returns; a sink that fails loses none and can go on."""

import errno
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError, WorldError
from covey.trace import JsonLinesSink, MemorySink, Recorder, Sink, StreamSink, TraceError, check_trace, open_sink
from covey.trace.recorder import Record
from covey.trace.stream import read_stream
from tests.trace.rows import COLUMNS, Columns, columns_of, random_rows, record


def recorded() -> list[Columns]:
    recorder = Recorder(sink := MemorySink())
    record(recorder)
    return sink.rows


def fill(sink: Sink, rows: int, then_flush: bool = True) -> None:
    member = Recorder(sink).member("r", "p", 1)
    for n in range(rows):
        member.write(n, "start")
        if then_flush:
            sink.flush()


# --- what is flushed is there


def test_memory_holds_what_a_reader_would_give(tmp_path: Path) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        record(recorder)
    assert columns_of(tmp_path) == recorded()


def test_flushed_lines_are_in_the_file_and_pending_ones_are_not(tmp_path: Path) -> None:
    recorder = Recorder(JsonLinesSink(tmp_path / "p"))
    record(recorder)
    recorder.member("r", "p", 1).write(50, "stop")
    assert columns_of(tmp_path / "p.jsonl") == recorded()


def test_flushed_rows_are_in_the_stream_and_pending_ones_are_not(tmp_path: Path) -> None:
    recorder = Recorder(StreamSink(tmp_path / "p"))
    record(recorder)
    recorder.member("r", "p", 1).write(50, "stop")
    assert list(read_stream(tmp_path / "p.rows")) == recorded()


def test_a_closed_stream_is_parquet_of_the_same_rows(tmp_path: Path) -> None:
    with Recorder(StreamSink(tmp_path / "p")) as recorder:
        record(recorder)
    assert os.listdir(tmp_path) == ["p.parquet"]
    assert columns_of(tmp_path) == recorded()
    check_trace(tmp_path)


def test_a_stream_without_rows_leaves_no_file(tmp_path: Path) -> None:
    StreamSink(tmp_path / "p").close()
    assert os.listdir(tmp_path) == []


def test_a_sink_may_be_closed_twice(tmp_path: Path) -> None:
    for sink in (JsonLinesSink(tmp_path / "a"), StreamSink(tmp_path / "b"), MemorySink()):
        fill(sink, 1)
        sink.close()
        sink.close()
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "b.parquet"]


def test_who_writes_after_the_end_is_told_so(tmp_path: Path) -> None:
    for sink in (JsonLinesSink(tmp_path / "a"), StreamSink(tmp_path / "b")):
        fill(sink, 1)
        sink.close()
        with pytest.raises(MisuseError, match="is closed, and rows are still written to it"):
            fill(sink, 1)


# --- the same rows, the same bytes


def without_unknown(columns: Columns) -> Columns:
    return {name: value for name, value in columns.items() if name in COLUMNS}


def reverse(value: Any) -> Any:
    """The same, but every dict was filled the other way round."""
    return {name: reverse(value[name]) for name in reversed(value)} if isinstance(value, dict) else value


@settings(max_examples=40)
@given(st.lists(random_rows().map(without_unknown), min_size=1, max_size=4), st.booleans())
def test_the_same_rows_give_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Columns], in_one_batch: bool
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    for name in ("one", "two"):
        for sink in (JsonLinesSink(folder / name), StreamSink(folder / name / "stream")):
            for columns in rows:
                sink.pending.append(Record(**columns if name == "one" else reverse(columns)))
                if not in_one_batch:
                    sink.flush()
            sink.close()
    assert (folder / "one.jsonl").read_bytes() == (folder / "two.jsonl").read_bytes()
    assert (folder / "one/stream.parquet").read_bytes() == (folder / "two/stream.parquet").read_bytes()


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_the_order_in_which_a_dict_was_filled_does_not_show(tmp_path: Path, format: Any) -> None:
    counters = {"sent": 1, "a": 2, "heartbeat": 3}
    for name, each in (("one", counters), ("two", reverse(counters))):
        with Recorder(open_sink(tmp_path / name, format)) as recorder:
            recorder.member("r", "p", 1).write(0, "state", counters=each)
    assert (tmp_path / f"one.{format}").read_bytes() == (tmp_path / f"two.{format}").read_bytes()


def test_batches_do_not_show_in_what_a_stream_is_closed_into(tmp_path: Path) -> None:
    for name, then_flush in (("often", True), ("once", False)):
        sink = StreamSink(tmp_path / name)
        fill(sink, 9, then_flush)
        sink.close()
    assert (tmp_path / "often.parquet").read_bytes() == (tmp_path / "once.parquet").read_bytes()


# --- rotation


def test_a_full_stream_is_closed_and_the_next_begun(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p", rotate_rows=2)
    fill(sink, 5)
    assert sorted(os.listdir(tmp_path)) == ["p.1.parquet", "p.2.parquet", "p.3.rows"]
    sink.close()
    assert [len(columns_of(tmp_path / f"p.{part}.parquet")) for part in (1, 2, 3)] == [2, 2, 1]


def test_a_rotation_at_the_very_end_leaves_no_empty_file(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p", rotate_rows=2)
    fill(sink, 4)
    sink.close()
    assert sorted(os.listdir(tmp_path)) == ["p.1.parquet", "p.2.parquet"]


def test_a_rotation_that_fails_leaves_its_stream_for_later_and_the_next_one_open(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p", rotate_rows=2)
    member = Recorder(sink).member("r", "p", 1)
    member.write(1, "start")
    member.write(2, "start", size="large")
    with pytest.raises(TraceError, match=r"p\.1\.rows, row 2: column size: expected int, got str"):
        sink.flush()
    assert len(list(read_stream(tmp_path / "p.1.rows"))) == 2
    member.write(3, "start")
    sink.close()
    assert [columns["time_ns"] for columns in columns_of(tmp_path / "p.2.parquet")] == [3]


def test_a_part_that_is_there_is_passed_by(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p", rotate_rows=1)
    (tmp_path / "p.2.parquet").touch()
    with pytest.raises(MisuseError, match=r"p\.2\.parquet is already there"):
        fill(sink, 1)
    fill(sink, 1)
    sink.close()
    assert sorted(os.listdir(tmp_path)) == ["p.1.parquet", "p.2.parquet"]
    assert len(columns_of(tmp_path / "p.1.parquet")) == 2


@pytest.mark.parametrize("there", ["p.rows", "p.jsonl", "p.parquet"])
def test_no_stream_is_begun_beside_a_file_that_it_would_become(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("evidence")
    with pytest.raises(MisuseError, match="is already there, and a trace is never written over"):
        StreamSink(tmp_path / "p")
    assert os.listdir(tmp_path) == [there]


# --- failures


def test_rows_that_could_not_be_written_are_written_by_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for sink, name in ((JsonLinesSink(tmp_path / "a"), "a.jsonl"), (StreamSink(tmp_path / "b"), "b.rows")):
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(WorldError, match=rf"{name}: cannot write the trace: No space left"):
            record(Recorder(sink))
        monkeypatch.undo()
        sink.close()
    assert columns_of(tmp_path / "a.jsonl") == columns_of(tmp_path / "b.parquet") == recorded()


@pytest.mark.parametrize("value", [object(), "\ud800", {"x": object()}])
def test_a_row_that_cannot_be_encoded_is_named_and_the_others_are_written(tmp_path: Path, value: Any) -> None:
    for sink in (JsonLinesSink(tmp_path / "a"), StreamSink(tmp_path / "b"), MemorySink()):
        member = Recorder(sink).member("r", "p", 2)
        member.write(1, "start")
        member.write(2, "state", digest=value)
        member.write(3, "stop")
        with pytest.raises(MisuseError, match="the state row 8589934593 of p/2 cannot be written down: "):
            sink.flush()
        sink.close()
    for name in ("a.jsonl", "b.parquet"):
        assert [columns["event"] for columns in columns_of(tmp_path / name)] == ["start", "stop"]


# --- choosing one


@pytest.mark.parametrize(("format", "name"), [("jsonl", "p.jsonl"), ("parquet", "p.rows")])
def test_a_format_has_its_sink(tmp_path: Path, format: Any, name: str) -> None:
    assert open_sink(tmp_path / "p", format).path == tmp_path / name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"format": "csv"}, "unknown trace format 'csv'; the formats are jsonl and parquet"),
        ({"format": "jsonl", "rotate_rows": 5}, "only format parquet rotates"),
        ({"format": "parquet", "rotate_rows": 0}, "rotate_rows is 0; a stream holds at least one row"),
    ],
)
def test_what_no_sink_can_do_is_refused(tmp_path: Path, options: Any, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        open_sink(tmp_path / "p", **options)
    assert os.listdir(tmp_path) == []


# --- without pyarrow


@pytest.mark.usefixtures("without_arrow")
def test_without_pyarrow_a_stream_becomes_json_lines_with_a_warning(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p")
    record(Recorder(sink))
    with pytest.warns(UserWarning, match=r"pyarrow is not installed, so .*p\.rows was closed into JSON Lines"):
        sink.close()
    assert os.listdir(tmp_path) == ["p.jsonl"]
    assert columns_of(tmp_path) == recorded()


@pytest.mark.usefixtures("without_arrow")
def test_without_pyarrow_a_rotation_warns_and_goes_on(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p", rotate_rows=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fill(sink, 2)
    assert len(caught) == 2
    assert sorted(os.listdir(tmp_path)) == ["p.1.jsonl", "p.2.jsonl", "p.3.rows"]
