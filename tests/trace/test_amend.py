"""What is added from outside changes nothing else, and never makes a trace that cannot be trusted."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from covey.kernel.errors import MisuseError, WorldError
from covey.trace import JsonLinesSink, Recorder, StreamSink, TraceError, check_trace, open_sink
from covey.trace.amend import Seal, add_fail, seal_trace
from covey.trace.convert import close_streams
from covey.trace.parquet import write_parquet
from covey.trace.recorder import LAST
from tests.trace.rows import HEADER, Columns, columns_of, record, row, write

SEAL = Seal(complete=True, healed=True)


def sealed(path: Path, seal: Seal = SEAL) -> dict[str, int]:
    return {file.name: headers for file, headers in seal_trace(path, seal)}


def headers(path: Path) -> list[tuple[str, bool, bool]]:
    found = [each for each in columns_of(path) if each["event"] == "run"]
    return [(each["run"], each["complete"], each["healed"]) for each in found]


def others(path: Path) -> list[Columns]:
    return [each for each in columns_of(path) if each["event"] != "run"]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two runs, in both encodings, every member with headers of its own."""
    for name, format in (("p", "jsonl"), ("q", "parquet")):
        with Recorder(open_sink(tmp_path / name, format)) as recorder:  # type: ignore[arg-type]
            for run in ("r", "s"):
                recorder.header(run, "evs", universe=["p", "q"])
                recorder.member(run, name, 1).write(1, "start", group="run")
    check_trace(tmp_path)
    return tmp_path


# --- seal


def test_sealing_changes_the_headers_and_nothing_else(trace: Path) -> None:
    before = others(trace)
    assert sealed(trace) == {"p.jsonl": 2, "q.parquet": 2}
    assert headers(trace) == [("r", True, True), ("s", True, True)] * 2
    assert others(trace) == before
    check_trace(trace)


def test_one_run_may_be_sealed_by_itself(trace: Path) -> None:
    assert sealed(trace, SEAL._replace(run="s")) == {"p.jsonl": 1, "q.parquet": 1}
    assert headers(trace) == [("r", False, False), ("s", True, True)] * 2
    check_trace(trace)


@pytest.mark.parametrize(
    ("seal", "expected"), [(Seal(True, None), (True, False)), (Seal(None, True), (False, True)), (SEAL, (True, True))]
)
def test_what_is_not_said_stays_as_it_is(trace: Path, seal: Seal, expected: tuple[bool, bool]) -> None:
    sealed(trace, seal)
    assert {each[1:] for each in headers(trace)} == {expected}


def test_a_seal_may_be_taken_back(trace: Path) -> None:
    before = columns_of(trace)
    sealed(trace)
    sealed(trace, Seal(complete=False, healed=False))
    assert columns_of(trace) == before


def test_sealing_that_was_interrupted_is_finished_by_doing_it_again(trace: Path) -> None:
    next(seal_trace(trace, SEAL))
    with pytest.raises(TraceError, match="complete is True there and False here; seal the whole trace at once"):
        check_trace(trace)
    sealed(trace)
    check_trace(trace)


def test_lines_that_are_no_header_stay_as_they_are_to_the_byte(tmp_path: Path) -> None:
    line = '{ "event":"start", "run":"r","process":"p","incarnation":1,"index":1,"time_ns":0,"group":"","z":[1.50]}\r\n'
    header = (
        '{"event":"\\u0072un","model":"evs","run":"r","process":"","incarnation":1,"index":0,"time_ns":0,"group":""'
    )
    (tmp_path / "p.jsonl").write_text(f'{line}{header},"complete":false,"healed":false,"note":"é"}}', newline="")
    sealed(tmp_path)
    with (tmp_path / "p.jsonl").open(newline="") as file:
        assert file.readline() == line
    assert columns_of(tmp_path)[1] == {**HEADER, "complete": True, "healed": True, "note": "é"}


def test_a_foreign_parquet_file_keeps_its_columns_and_types(tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    write_parquet(path, [HEADER, row("start", 1)])
    table = pq.read_table(path)
    event = table.schema.get_field_index("event")
    table = table.set_column(event, "event", table["event"].dictionary_encode()).append_column("rack", [["a", "b"]])
    pq.write_table(table, path)
    sealed(tmp_path)
    after = pq.read_table(path)
    assert after.schema.equals(table.schema)
    assert after.drop_columns(["complete", "healed"]).equals(table.drop_columns(["complete", "healed"]))
    assert (after["complete"].to_pylist(), after["healed"].to_pylist()) == ([True, None], [True, None])


@pytest.mark.parametrize(
    ("seal", "complaint"),
    [
        (Seal(None, None), "nothing to seal: say whether the runs are complete, or healed"),
        (SEAL._replace(run="t"), "no header of run 't'"),
    ],
)
def test_a_seal_of_nothing_is_refused(trace: Path, seal: Seal, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        sealed(trace, seal)


def test_a_trace_without_headers_cannot_be_sealed(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", row("start", 1))
    with pytest.raises(MisuseError, match="no headers to seal"):
        sealed(tmp_path)


def test_a_trace_that_is_still_written_is_not_sealed(trace: Path) -> None:
    with Recorder(JsonLinesSink(trace / "z")), pytest.raises(WorldError, match=r"z\.jsonl is still being written"):
        sealed(trace)
    with Recorder(StreamSink(trace / "y")), pytest.raises(TraceError, match=r"y\.rows: a stream that is not closed"):
        sealed(trace)
    assert headers(trace) == [("r", False, False), ("s", False, False)] * 2


def test_nothing_is_sealed_where_a_row_cannot_be_read(trace: Path) -> None:
    write(trace / "z.jsonl", row("elect", 1))
    with pytest.raises(TraceError, match=r"z\.jsonl, line 1: unknown event"):
        sealed(trace)
    assert '"complete":true' not in (trace / "p.jsonl").read_text()


# --- fail


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """The trace of p/1, killed, and p/2, which goes on."""
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        record(recorder)
        recorder.member("r", "p", 2).write(90, "start")
    return tmp_path


def test_a_fail_row_is_added_with_the_last_index_and_the_last_time(crashed: Path) -> None:
    path = add_fail(crashed, "r", "p", 1)
    assert columns_of(path) == [row("fail", 2**32 + LAST, time_ns=40)]
    check_trace(crashed)


def test_a_fail_row_may_say_the_configuration(crashed: Path) -> None:
    assert columns_of(add_fail(crashed, "r", "p", 2, "v1"))[0]["config"] == "v1"
    check_trace(crashed)


def test_a_fail_row_is_added_to_what_a_crash_left_open(tmp_path: Path) -> None:
    sink = StreamSink(tmp_path / "p")
    record(Recorder(sink))
    sink._file.close()  # what the system does with the files of a process that it kills
    add_fail(tmp_path, "r", "p", 1)
    assert len(list(close_streams(tmp_path, "parquet"))) == 1
    check_trace(tmp_path)


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "ä", "\0", "x" * 300, "-"])
def test_processes_of_any_name_get_files_of_their_own(tmp_path: Path, name: str) -> None:
    with Recorder(JsonLinesSink(tmp_path / "all")) as recorder:
        recorder.header("r", "evs")
        for process in (name, name + "_", name + "/"):
            recorder.member("r", process, 1).write(1, "start")
    files = {add_fail(tmp_path, "r", process, 1) for process in (name, name + "_", name + "/")}
    assert {file.parent for file in files} == {tmp_path}
    assert len(files) == 3
    check_trace(tmp_path)


@pytest.mark.parametrize(("event", "columns"), [("stop", {}), ("fail", {})], ids=["stopped", "failed"])
def test_who_has_ended_already_does_not_fail(tmp_path: Path, event: str, columns: Any) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        record(recorder)
        recorder.member("r", "p", 1).write(50, event)
    with pytest.raises(MisuseError, match=rf"p/1 has ended already: {event} at .*p\.jsonl, line 6"):
        add_fail(tmp_path, "r", "p", 1)


def test_who_only_left_a_group_may_fail(tmp_path: Path) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        record(recorder)
        recorder.member("r", "p", 1).write(50, "stop", "g", config="v1")
    add_fail(tmp_path, "r", "p", 1)
    check_trace(tmp_path)


def test_a_process_does_not_fail_twice(crashed: Path) -> None:
    add_fail(crashed, "r", "p", 1)
    with pytest.raises(MisuseError, match=r"p/1 has ended already: fail at .*fail-r-p-1-[0-9a-f]{8}\.jsonl, line 1"):
        add_fail(crashed, "r", "p", 1)


@pytest.mark.parametrize(("run", "process", "incarnation"), [("s", "p", 1), ("r", "q", 1), ("r", "p", 3)])
def test_who_is_not_in_the_trace_does_not_fail(crashed: Path, run: str, process: str, incarnation: int) -> None:
    with pytest.raises(MisuseError, match=f"no row of incarnation {incarnation} of process '{process}' in run '{run}'"):
        add_fail(crashed, run, process, incarnation)


def test_a_process_that_still_runs_does_not_fail(tmp_path: Path) -> None:
    with Recorder(StreamSink(tmp_path / "p")) as recorder:
        record(recorder)
        with pytest.raises(WorldError, match=r"p\.rows is still being written; wait until its process has ended"):
            add_fail(tmp_path, "r", "p", 1)


def test_a_fail_row_is_not_put_among_indexes_of_another_kind(tmp_path: Path) -> None:
    write(tmp_path / "p.jsonl", HEADER, row("start", 1), row("start", 2, incarnation=2))
    with pytest.raises(
        TraceError, match=r"p\.jsonl, line 2: process 'p' does not number its rows from incarnation \* "
    ):
        add_fail(tmp_path, "r", "p", 1)
    check_trace(tmp_path)


def test_a_fail_row_needs_a_folder(crashed: Path) -> None:
    with pytest.raises(MisuseError, match="is not a directory; give that of the trace"):
        add_fail(crashed / "p.jsonl", "r", "p", 1)
