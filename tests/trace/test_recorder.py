"""The recorder numbers rows, keeps what it was given, and refuses what cannot be."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import MessageId
from covey.trace import JsonLinesSink, MemorySink, Recorder, check_trace
from covey.trace.recorder import LAST, Member
from covey.trace.schema import INT
from covey.trace.sinks import PENDING_ROWS
from tests.trace.rows import Columns, record, written_out

FIRST = 2**32
"""The first index of incarnation 1."""


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(MemorySink())


def rows(recorder: Recorder) -> list[Columns]:
    assert isinstance(recorder.sink, MemorySink)
    return recorder.sink.rows


def near_the_end(recorder: Recorder, left: int) -> Member:
    """A member with so many indexes left, one of them reserved."""
    member = recorder.member("r", "p", 1)
    member.write(0, "deliver", message="q/1/1", count=LAST + 1 - left)
    return member


def test_a_row_has_what_was_said_and_no_other_column(recorder: Recorder) -> None:
    recorder.member("r", "p", 2).write(7, "deliver", "g", message=MessageId("q/x", 1, 3), config="v1", ordinal=9)
    assert rows(recorder) == [
        {
            "run": "r",
            "process": "p",
            "incarnation": 2,
            "index": 2 * FIRST,
            "time_ns": 7,
            "group": "g",
            "event": "deliver",
            "message": "q/x/1/3",
            "config": "v1",
            "ordinal": 9,
        }
    ]


def test_a_header_is_row_0_of_no_process(recorder: Recorder) -> None:
    recorder.header("r", ["evs", "vs"], universe={"q", "p"})
    assert rows(recorder) == [
        {
            "run": "r",
            "process": "",
            "incarnation": 1,
            "index": 0,
            "time_ns": 0,
            "group": "",
            "event": "run",
            "model": ["evs", "vs"],
            "complete": False,
            "healed": False,
            "universe": ["p", "q"],
        }
    ]


def test_an_incarnation_numbers_its_rows_from_a_place_of_its_own(recorder: Recorder) -> None:
    for name, incarnation in (("p", 1), ("q", 1), ("p", 2), ("p", 1), ("p", 2)):
        recorder.member("r", name, incarnation).write(0, "start")
    assert [(row["process"], row["index"]) for row in rows(recorder)] == [
        ("p", FIRST),
        ("q", FIRST),
        ("p", 2 * FIRST),
        ("p", FIRST + 1),
        ("p", 2 * FIRST + 1),
    ]


@given(st.lists(st.tuples(st.sampled_from(["send", "deliver", "start"]), st.integers(1, 9)), max_size=9))
def test_a_run_of_messages_occupies_what_its_messages_written_out_occupy(said: list[tuple[str, int]]) -> None:
    together, apart = Recorder(MemorySink()), Recorder(MemorySink())
    number = 1
    for event, k in said:
        if event == "start":
            together.member("r", "p", 1).write(5, event)
            apart.member("r", "p", 1).write(5, event)
            continue
        together.member("r", "p", 1).write(5, event, message=MessageId("p", 1, number), count=k)
        for n in range(number, number + k):
            apart.member("r", "p", 1).write(5, event, message=MessageId("p", 1, n))
        number += k
    assert [*written_out(rows(together))] == rows(apart)


@pytest.mark.parametrize(
    ("name", "value", "change"),
    [
        ("members", ["p"], lambda value: value.append("q")),
        ("label", [1, 2], lambda value: value.clear()),
        ("vt", {"g": {"p": 1}}, lambda value: value["g"].update(p=2)),
        ("vt", {"g": Counter(p=1)}, lambda value: value["g"].update(p=2)),
        ("counters", Counter(sent=1), lambda value: value.update(sent=9)),
        ("members", {"p"}, lambda value: value.add("q")),
        ("label", [[{"a": [1]}]], lambda value: value[0][0]["a"].append(2)),
    ],
)
def test_what_was_written_does_not_change_with_its_owner(name: str, value: Any, change: Any) -> None:
    before, after = Recorder(MemorySink()), Recorder(MemorySink())
    before.member("r", "p", 1).write(0, "send", **{name: value})
    expected = rows(before)
    after.member("r", "p", 1).write(0, "send", **{name: value})
    change(value)
    assert rows(after) == expected


def test_a_set_is_written_in_order(recorder: Recorder) -> None:
    recorder.member("r", "p", 1).write(0, "config", config="v", members={f"p{n}" for n in range(9)})
    assert rows(recorder)[0]["members"] == [f"p{n}" for n in range(9)]


def test_a_fail_has_the_last_index_and_nothing_follows(recorder: Recorder) -> None:
    member = recorder.member("r", "p", 1)
    member.write(1, "start")
    member.write_fail(2, "v1")
    assert rows(recorder)[1] == {
        **rows(recorder)[0],
        "index": FIRST + LAST,
        "time_ns": 2,
        "event": "fail",
        "config": "v1",
    }
    with pytest.raises(MisuseError, match="p/1 has failed; the process goes on as incarnation 2"):
        member.write(3, "start")
    with pytest.raises(MisuseError, match="p/1 has failed already"):
        member.write_fail(3)
    assert len(rows(recorder)) == 2


def test_an_incarnation_keeps_its_last_index_for_the_fail_row(recorder: Recorder) -> None:
    member = near_the_end(recorder, left=2)
    member.write(0, "start")
    with pytest.raises(WorldError, match="used up its 2\\*\\*32 indexes; start the next incarnation"):
        member.write(0, "start")
    member.write_fail(0)
    assert [row["index"] for row in rows(recorder)][1:] == [FIRST + LAST - 1, FIRST + LAST]


def test_a_run_of_messages_does_not_reach_the_last_index(recorder: Recorder) -> None:
    member = near_the_end(recorder, left=4)
    with pytest.raises(WorldError, match="used up"):
        member.write(0, "deliver", message="q/1/1", count=4)
    member.write(0, "deliver", message="q/1/1", count=3)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (lambda it: it.header("r", "tcp"), "unknown model 'tcp'; the models are evs, vs, isis,"),
        (lambda it: it.header("r", []), "a run needs a model, one of evs, vs, isis,"),
        (lambda it: it.header("\ud800", "evs"), "cannot be written as UTF-8"),
        (lambda it: it.member("\ud800", "p", 1), "cannot be written as UTF-8"),
        (lambda it: it.member("r", "\ud800", 1), "cannot be written as UTF-8"),
        (lambda it: it.member("r", "", 1), "a process needs a name"),
        (lambda it: it.member("r", "p", 0), f"incarnation 0 is not one of 1 to {INT}"),
        (lambda it: it.member("r", "p", INT + 1), f"incarnation {INT + 1} is not one of"),
        (lambda it: it.member("r", "p", 1).write(0, "start", colour="red"), "no column is called 'colour'"),
        (lambda it: it.member("r", "p", 1).write(0, "start", index=3), "index"),
        (lambda it: it.member("r", "p", 1).write(0, "send", count=0), "p/1: a row stands for 0 messages"),
        (lambda it: it.member("r", "p", 1).write(0, "send", count=-1), "p/1: a row stands for -1 messages"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(recorder: Recorder, wrong: Any, complaint: str) -> None:
    with pytest.raises(MisuseError, match=complaint):
        wrong(recorder)
    assert rows(recorder) == []
    recorder.member("r", "p", 1).write(0, "start")
    assert rows(recorder)[0]["index"] == FIRST, "a refused row takes no index"


def test_a_recorder_that_is_never_flushed_holds_a_bounded_number_of_rows(tmp_path: Path) -> None:
    recorder = Recorder(JsonLinesSink(tmp_path / "p"))
    member = recorder.member("r", "p", 1)
    for n in range(2 * PENDING_ROWS + 5):
        member.write(n, "start")
        assert len(recorder.sink.pending) < PENDING_ROWS
    recorder.close()
    assert (tmp_path / "p.jsonl").read_bytes().count(b"\n") == 2 * PENDING_ROWS + 5


def test_the_end_of_a_with_block_finishes_the_file(tmp_path: Path) -> None:
    with Recorder(JsonLinesSink(tmp_path / "p")) as recorder:
        record(recorder)
        recorder.member("r", "p", 1).write(50, "stop")
    check_trace(tmp_path)
    assert (tmp_path / "p.jsonl").read_text().endswith('"event":"stop"}\n')
