"""What one message or one view went through, in an order that every process agrees with."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.kernel.ids import MessageId
from covey.trace import Row
from covey.trace.schema import EVENTS
from covey.trace.story import Step, story_of_message, story_of_view, tell
from tests.trace.rows import Columns, row, send, written_out
from tests.trace.test_row import complete


def rows(trace: list[Columns]) -> list[Row]:
    return [Row(columns, Path("p.jsonl"), number) for number, columns in enumerate(trace, start=1)]


def about(trace: list[Columns], message: str) -> list[Step]:
    return list(story_of_message(rows(trace), MessageId.parse(message)))


def in_view(trace: list[Columns], view: str) -> list[str]:
    return [f"{step.who} {tell(step)}" for step in story_of_view(rows(trace), view)]


SENT = [
    row("start", 1),
    send(2, 5, count=3, time_ns=100, group="g", vt={"g": {"p": 5, "q": 2}, "h": {"p": 1}}, size=8, config="v1"),
    row("deliver", 9, process="q", message="p/1/4", count=4, ordinal=70, time_ns=130),
    row("deliver", 5, message="p/1/6", time_ns=150),
    row("safe", 13, process="q", message="p/1/7", time_ns=160),
    row("deliver", 9, process="q", message="p/2/6", run="r"),
]


def test_a_message_is_found_in_the_runs_that_it_is_part_of() -> None:
    steps = about(SENT, "p/1/6")
    assert [(step.who, step.columns["event"], step.columns["index"]) for step in steps] == [
        ("p/1", "send", 3),
        ("q/1", "deliver", 11),
        ("p/1", "deliver", 5),
    ]
    assert [step.since_ns for step in steps] == [0, 30, 50]


def test_of_a_run_only_the_part_of_the_message_is_told() -> None:
    sent, delivered, _ = about(SENT, "p/1/6")
    expected = {**SENT[1], "index": 3, "message": "p/1/6", "vt": {"g": {"p": 6, "q": 2}, "h": {"p": 1}}}
    del expected["count"]
    assert sent.columns == expected
    assert (delivered.columns["message"], delivered.columns["ordinal"]) == ("p/1/6", 72)


@pytest.mark.parametrize("message", ["p/1/3", "p/1/9", "p/3/6", "q/1/6"])
def test_other_messages_are_not_told_of(message: str) -> None:
    assert about(SENT, message) == []


@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 5), st.integers(1, 4), st.integers(0, 50)), max_size=8),
    st.integers(0, 9),
)
def test_a_story_is_the_same_with_all_runs_written_out(said: list[tuple[str, int, int, int]], number: int) -> None:
    trace = [
        send(10 * at, first, process=process, count=count, time_ns=time, group="g", vt={"g": {process: first}})
        for at, (process, first, count, time) in enumerate(said)
    ]
    message = f"p/1/{number}"
    assert about(trace, message) == about([*written_out(trace)], message)


@given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(-20, 20)), max_size=12))
def test_steps_keep_the_order_of_each_process_whatever_its_clock_says(said: list[tuple[str, int]]) -> None:
    trace = [
        row("deliver", at, process=process, message="p/1/1", time_ns=time) for at, (process, time) in enumerate(said)
    ]
    steps = about(trace[::-1], "p/1/1")
    assert len(steps) == len(trace)
    for process in "pqr":
        own = [step.columns["index"] for step in steps if step.columns["process"] == process]
        assert own == sorted(own)
    if steps:
        assert steps[0].since_ns == 0


def test_processes_are_interleaved_by_their_clocks_and_runs_kept_apart() -> None:
    trace = [
        row("deliver", index, process=process, run=run, message="p/1/1", time_ns=time)
        for run in "ab"
        for process, index, time in (("p", 1, 1000), ("q", 1, 1500), ("p", 2, 2000))
    ]
    steps = about(trace, "p/1/1")
    assert [(step.run, step.who, step.since_ns) for step in steps] == [
        (run, who, since) for run in "ab" for who, since in (("p/1", 0), ("q/1", 500), ("p/1", 1000))
    ]
    assert [run for run, _ in groupby(steps, key=lambda step: step.run)] == ["a", "b"]


def test_a_view_is_told_from_its_installation_to_the_one_that_ends_it() -> None:
    trace = [
        row("config", 1, config="v1", kind="regular", members=["p", "q"], primary=True),
        row("config", 2, process="q", config="v1", kind="regular", members=["p", "q"]),
        send(3, 1, config="v1", dests=["q"], service="safe"),
        row("deliver", 4, process="q", message="p/1/1", config="v1", ordinal=3),
        row("config", 5, config="t1", kind="transitional", members=["p"], previous="v1"),
        row("config", 6, config="v2", kind="regular", members=["p"]),
        row("stop", 7, process="q", config="v1"),
    ]
    assert in_view(trace, "v1") == [
        "p/1 installs regular v1 {p q} (primary)",
        "q/1 installs regular v1 {p q}",
        "p/1 sends p/1/1 to q as safe in v1",
        "q/1 delivers p/1/1 in v1 at ordinal 3",
        "p/1 installs transitional t1 {p}",
        "q/1 leaves in v1",
    ]


def test_a_crash_without_a_configuration_belongs_to_the_view_installed_last() -> None:
    trace = [
        row("fail", 90),
        row("config", 6, config="v2"),
        row("config", 1, config="v1"),
        row("config", 1, config="v1", process="q"),
        row("config", 2, config="other", process="q", group="g"),
        row("fail", 90, process="q"),
        row("config", 1, config="v1", process="s", run="s"),
        row("fail", 90, process="s"),
    ]
    assert in_view(trace, "v1") == ["p/1 installs v1", "q/1 installs v1", "q/1 crashes", "s/1 installs v1"]
    assert in_view(trace, "v2") == ["p/1 installs v2", "p/1 crashes"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (send(1, 1), "sends p/1/1"),
        (send(1, 1, count=3, dests=["q", "r"]), "sends p/1/1 to p/1/3 to q r"),
        (row("deliver", 1, message="p/1/1", group="g"), "delivers p/1/1 [group g]"),
        (row("safe", 1, message="p/1/1", config="v"), "knows that all have p/1/1 in v"),
        (row("accept", 1, number=4), "learns of the acceptance of 4"),
        (row("accept", 1, number=4, count=2), "learns of the acceptance of 4 to 5"),
        (row("reject", 1, message="p/1/1"), "rejects p/1/1"),
        (row("config", 1, config="w", ordinal=4), "installs w from ordinal 4"),
        (row("fail", 1, config="v1"), "crashes in v1"),
        (row("stop", 1), "leaves"),
        (row("lock", 1, client="c", item="x", mode="read"), "lock client=c item=x mode=read"),
    ],
)
def test_an_event_is_told_in_a_few_words(columns: Columns, told: str) -> None:
    assert tell(Step("r", "p/1", 0, columns)) == told


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_can_be_told(event: str) -> None:
    columns: dict[str, Any] = complete(event)
    assert tell(Step("r", "p/1", 0, columns))


def test_the_data_of_a_step_is_its_row_after_the_time() -> None:
    data = Step("r", "p/1", 30, {"event": "start", "rack": 1, "run": "r"}).data()
    assert list(data.items()) == [("since_ns", 30), ("run", "r"), ("event", "start"), ("rack", 1)]
