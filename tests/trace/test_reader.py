"""Everything that the format calls an error is one, and names the file and the line.

The first table breaks each rule once, in a trace that is otherwise good. JSON Lines and Parquet are told
apart only where a rule is about one of them.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.trace import Recorder, StreamSink, TraceError, check_trace, read_checked, read_trace
from covey.trace.parquet import write_parquet
from tests.trace.rows import HEADER, Columns, places, row, send, write, written_out

GOOD: dict[str, list[Columns]] = {
    "p": [HEADER, row("start", 1), send(2, 1, count=3), row("stop", 5)],
    "q": [HEADER, row("start", 1, process="q"), row("deliver", 2, process="q", message="p/1/1", count=3, ordinal=1)],
}


def p_line(number: int, columns: Columns | None = None, **changes: Any) -> dict[str, list[Columns]]:
    """The good trace with another line in p's file, or a changed one."""
    lines = list(GOOD["p"])
    lines[number - 1 : number] = [columns if columns is not None else {**lines[number - 1], **changes}]
    return {**GOOD, "p": lines}


def more(name: str, *rows: Columns) -> dict[str, list[Columns]]:
    return {**GOOD, name: [*GOOD[name], *rows]}


def without(number: int, column: str) -> dict[str, list[Columns]]:
    return p_line(number, {name: value for name, value in GOOD["p"][number - 1].items() if name != column})


# What is wrong, the file and line that must be named, and what must be said.
BROKEN = {
    "an unknown event": (p_line(2, event="elect"), "p", 2, "unknown event 'elect'"),
    "a column of every row is missing": (without(2, "time_ns"), "p", 2, "column time_ns.* is missing"),
    "a column of the event is missing": (without(3, "message"), "p", 3, "column message.* is missing"),
    "a value of another type": (p_line(2, index="1"), "p", 2, "column index: expected int, got str"),
    "a negative index": (p_line(2, index=-1), "p", 2, "column index"),
    "incarnation 0": (p_line(2, incarnation=0), "p", 2, "column incarnation"),
    "a count of 0": (p_line(3, count=0), "p", 3, "column count"),
    "a count where nothing is counted": (p_line(2, count=2), "p", 2, "a start row has count 2"),
    "a message id of another form": (p_line(3, message="p-1"), "p", 3, "column message"),
    "a header of a process": (p_line(1, process="p"), "p", 1, 'process "" and index 0'),
    "a header at another index": (p_line(1, index=3), "p", 1, 'process "" and index 0'),
    "an unknown model": (p_line(1, model="tcp"), "p", 1, "column model"),
    "a row of nobody": (p_line(2, process=""), "p", 2, "process is empty"),
    "no header": (
        {"p": GOOD["p"][1:], "q": GOOD["q"][1:]},
        "p",
        1,
        "run 'r' has no header; every member writes a `run` row first",
    ),
    "no header of one run of two": (more("q", row("start", 9, run="s")), "q", 4, "run 's' has no header"),
    "another model in another header": (
        {**GOOD, "q": [{**HEADER, "model": ["evs", "vs"]}]},
        "q",
        1,
        r"run 'r' has another header at .*p\.\w+, \w+ 1: model is \['evs'\] there and \['evs', 'vs'\] here",
    ),
    "only one header sealed": (
        {**GOOD, "q": [{**HEADER, "complete": True}]},
        "q",
        1,
        "complete is False there and True",
    ),
    "another universe": ({**GOOD, "q": [{**HEADER, "universe": ["p"]}]}, "q", 1, "universe is None there and"),
    "an index twice in a file": (
        more("p", row("stop", 1)),
        "p",
        5,
        r"index 1 of process 'p' in run 'r' is used again: .*p\.\w+, \w+ 2 has it",
    ),
    "an index twice in two files": (
        more("q", row("flush", 5)),
        "q",
        4,
        r"index 5 of process 'p' in run 'r' is used again: .*p\.\w+, \w+ 4 has it",
    ),
    "an index within a run of messages": (
        more("q", row("flush", 4)),
        "q",
        4,
        r"index 4 of process 'p' in run 'r' is used again: .*p\.\w+, \w+ 3 has it",
    ),
    "two runs of messages that overlap": (
        more("p", send(6, 4, count=3), send(8, 7, count=2)),
        "p",
        6,
        r"index 8 of process 'p' in run 'r' is used again: .*p\.\w+, \w+ 5 has it",
    ),
    "an index twice over two incarnations": (
        more("q", row("start", 5, incarnation=2)),
        "q",
        4,
        r"index 5 of incarnation 2 of process 'p' in run 'r' is not above index 5 of incarnation 1, at .*p\.\w+, \w+ 4",
    ),
    "a later incarnation that begins before the end of the earlier": (
        more("q", row("start", 0, incarnation=2)),
        "q",
        4,
        "index 0 of incarnation 2 of process 'p' in run 'r' is not above index 5 of incarnation 1",
    ),
    "an earlier incarnation that goes on after the beginning of the later": (
        more("q", row("start", 6, incarnation=2), row("start", 90, incarnation=3), row("stop", 99, incarnation=2)),
        "q",
        5,
        "index 90 of incarnation 3 of process 'p' in run 'r' is not above index 99 of incarnation 2",
    ),
}


NOT_IN_PARQUET = {"a value of another type", "a message id of another form"}
"""Its types do not let these happen."""


def put(folder: Path, trace: dict[str, list[Columns]], encoding: str = "jsonl") -> None:
    """Write the rows as they are, as a program that knows none of the rules would."""
    for name, rows in trace.items():
        if encoding == "parquet":
            write_parquet(folder / f"{name}.parquet", rows)
        else:
            write(folder / f"{name}.jsonl", *rows)


@pytest.mark.parametrize(
    ("rule", "encoding"),
    [(rule, "jsonl") for rule in BROKEN] + [(rule, "parquet") for rule in BROKEN if rule not in NOT_IN_PARQUET],
)
def test_a_broken_rule_is_an_error_with_file_and_line(tmp_path: Path, rule: str, encoding: str) -> None:
    trace, name, number, complaint = BROKEN[rule]
    put(tmp_path, trace, encoding)
    with pytest.raises(TraceError, match=complaint) as caught:
        check_trace(tmp_path)
    file = tmp_path / f"{name}.{encoding}"
    assert str(caught.value).startswith(f"{file}, {'line' if encoding == 'jsonl' else 'row'} {number}: ")
    assert (caught.value.file, caught.value.number) == (file, number)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "the line is empty"),
        ("start", "it is not JSON"),
        ('{"run":"r",}', "it is not JSON"),
        ("[]", "a row is a JSON object"),
        ("{}", "the column event is missing"),
        ('{"event":"start","event":"stop"}', "the key 'event' stands there twice"),
    ],
)
def test_a_malformed_line_is_an_error_with_file_and_line(tmp_path: Path, line: str, complaint: str) -> None:
    put(tmp_path, GOOD)
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    (tmp_path / "p.jsonl").write_text("\n".join([*lines[:2], line, *lines[2:], ""]))
    with pytest.raises(TraceError, match=rf"p\.jsonl, line 3: {complaint}"):
        check_trace(tmp_path)


def test_a_file_that_was_cut_short_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    whole = (tmp_path / "q.jsonl").read_bytes()
    (tmp_path / "q.jsonl").write_bytes(whole[:-2])
    with pytest.raises(TraceError, match=r"q\.jsonl, line 3: the file ends in the middle of this row; .*--trim"):
        check_trace(tmp_path)


@pytest.mark.parametrize("unclosed", [False, True])
def test_a_stream_that_is_not_closed_is_an_error_unless_asked_for(tmp_path: Path, unclosed: bool) -> None:
    put(tmp_path, GOOD)
    recorder = Recorder(StreamSink(tmp_path / "z"))
    recorder.member("r", "z", 1).write(0, "start")
    recorder.flush()
    if unclosed:
        assert [*read_trace(tmp_path, unclosed=True)][-1].process == "z"
        return
    with pytest.raises(
        TraceError, match=rf"z\.rows: a stream that is not closed; .*run covey trace convert {tmp_path}"
    ):
        check_trace(tmp_path)


def test_a_folder_without_a_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(TraceError, match="no trace here; give a directory with"):
        check_trace(tmp_path)


def test_a_trace_without_rows_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").touch()
    with pytest.raises(TraceError, match="the trace has no rows"):
        check_trace(tmp_path)


# --- what is no error


@pytest.mark.parametrize("encoding", ["jsonl", "parquet"])
def test_a_good_trace_gives_all_its_rows_with_their_places(tmp_path: Path, encoding: str) -> None:
    put(tmp_path, GOOD, encoding)
    rows = list(read_checked(tmp_path))
    assert [each.columns for each in rows] == [*GOOD["p"], *GOOD["q"]]
    unit = {"jsonl": "line", "parquet": "row"}[encoding]
    assert places(rows) == [
        f"{tmp_path / name}.{encoding}, {unit} {number}"
        for name, rows in GOOD.items()
        for number in range(1, len(rows) + 1)
    ]


def test_both_encodings_and_subfolders_are_one_trace(tmp_path: Path) -> None:
    put(tmp_path / "a", {"p": GOOD["p"]})
    (tmp_path / "b/c").mkdir(parents=True)
    put(tmp_path / "b/c", {"q": GOOD["q"]}, "parquet")
    assert [each.columns for each in read_checked(tmp_path)] == [*GOOD["p"], *GOOD["q"]]


def test_one_file_may_be_read_by_itself(tmp_path: Path) -> None:
    put(tmp_path, GOOD)
    check_trace(tmp_path / "p.jsonl")
    check_trace(str(tmp_path / "p.jsonl"))


@settings(max_examples=50)
@given(st.permutations([*GOOD["p"], *GOOD["q"]]), st.integers(0, 7))
def test_the_order_of_files_and_lines_means_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Columns], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("shuffled")
    put(folder, {"a": rows[:cut], "b": rows[cut:]})
    check_trace(folder)


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(p_line(4, index=1000), id="gaps"),
        pytest.param({"p": [{**HEADER, "time_ns": 7, "incarnation": 3, "group": "g"}], "q": [HEADER]}, id="header"),
        pytest.param({"p": [{**HEADER, "model": "evs"}], "q": [HEADER]}, id="one model"),
        pytest.param(
            {
                "p": [{**HEADER, "model": ["evs", "vs"], "universe": ["p", "q"]}],
                "q": [{**HEADER, "model": ["vs", "evs"], "universe": ["q", "p"]}],
            },
            id="order of lists",
        ),
        pytest.param(more("q", {**HEADER, "run": "s"}, row("start", 1, run="s")), id="two runs"),
        pytest.param(more("q", row("start", 6, incarnation=2)), id="next incarnation"),
        pytest.param(p_line(2, rack="b", time_ns=-5), id="unknown column"),
    ],
)
def test_what_the_format_allows_is_no_error(tmp_path: Path, trace: dict[str, list[Columns]]) -> None:
    put(tmp_path, trace)
    check_trace(tmp_path)


NOT_WRITTEN_OUT = {"a count of 0", "a count where nothing is counted", *NOT_IN_PARQUET}


@pytest.mark.parametrize("rule", [rule for rule in BROKEN if rule not in NOT_WRITTEN_OUT])
def test_a_broken_rule_is_an_error_with_its_runs_written_out_too(tmp_path: Path, rule: str) -> None:
    put(tmp_path, {name: [*written_out(rows)] for name, rows in BROKEN[rule][0].items()})
    with pytest.raises(TraceError):
        check_trace(tmp_path)


def test_the_good_trace_with_its_runs_written_out_is_good(tmp_path: Path) -> None:
    put(tmp_path, {name: [*written_out(rows)] for name, rows in GOOD.items()})
    check_trace(tmp_path)


def test_rows_are_read_one_after_the_other(tmp_path: Path) -> None:
    put(tmp_path, p_line(4, event="elect"))
    rows = read_trace(tmp_path)
    assert [next(rows).event for _ in range(3)] == ["run", "start", "send"]
