"""The judges find what is planted: a judge that is content with everything would make every test green."""

from typing import Any

import pytest

from tests.isis.judge import judge

Row = dict[str, Any]


def trace(*events: str, complete: bool = True, healed: bool = True) -> list[Row]:
    """Rows of events written as `who start`, `who fail`, `who stop` and `who v3 member member`."""
    rows: list[Row] = [
        {"event": "run", "process": "", "index": 0, "complete": complete, "healed": healed, "universe": ["a", "b", "c"]}
    ]
    for index, text in enumerate(events):
        who, event, *members = text.split()
        process, _, incarnation = who.rpartition("/")
        row = {"process": process, "incarnation": int(incarnation), "index": index, "event": event}
        if event.startswith("v"):
            row |= {"event": "config", "seq": int(event[1:]), "config": event, "members": members}
        rows.append(row)
    return rows


GOOD = (
    "a/1 start",
    "b/1 start",
    "c/1 start",
    "a/1 v0 a/1 b/1 c/1",
    "b/1 v0 a/1 b/1 c/1",
    "c/1 fail",
    "a/1 v1 a/1 b/1",
    "b/1 v1 a/1 b/1",
    "c/2 start",
    "a/1 v2 a/1 b/1 c/2",
    "b/1 v2 a/1 b/1 c/2",
    "c/2 v2 a/1 b/1 c/2",
)


def test_a_good_trace_is_good() -> None:
    assert judge(trace(*GOOD)) == []


@pytest.mark.parametrize(
    ("replaced", "by", "sentence"),
    [
        ("b/1 v1 a/1 b/1", "b/1 v1 b/1 c/1", "b/1 installs view 1 as ('b/1', 'c/1'), a/1 as ('a/1', 'b/1')"),
        ("b/1 v1 a/1 b/1", "b/1 v0 a/1 b/1 c/1", "b/1 installs view 0 straight after view 0"),
        ("b/1 v1 a/1 b/1", "", "b/1 installs view 2 straight after view 0"),
        ("c/1 fail", "c/1 v1 a/1 b/1", "c/1 installs view 1, of which it is no member"),
        ("c/2 start", "", "c/2: config while it is not started"),
        ("a/1 v1 a/1 b/1", "a/1 v1 a/1", "view 1 ('a/1',) has no majority of ['a', 'b', 'c']"),
        ("c/2 v2 a/1 b/1 c/2", "", "c/2 rests in no view"),
        ("b/1 v2 a/1 b/1 c/2", "", "b/1 rests in view 1 ('a/1', 'b/1'), and ['a/1', 'b/1', 'c/2'] are up"),
        ("c/2 start", "c/1 start", "c/1 starts twice"),
        ("v2 a/1 b/1 c/2", "v2 a/1 b/1 c/1", "c/1 comes back in view 2, after view 0"),
        ("v0 a/1 b/1 c/1", "v0 a/1 b/1 c/3", "view 2 has c/2 after 3"),
        ("a/1 v2 a/1 b/1 c/2", "a/1 v2 a/1 b/1 c/1 c/2", "view 2 holds two incarnations of one site"),
    ],
)
def test_what_is_planted_is_found(replaced: str, by: str, sentence: str) -> None:
    found = judge(trace(*filter(None, (event.replace(replaced, by) for event in GOOD))))
    assert [each for each in found if each.startswith(sentence)], found


def test_rest_is_demanded_of_complete_runs_only() -> None:
    unfinished = trace(*GOOD[:-1], complete=False, healed=False)
    assert judge(unfinished) == []


def test_rest_is_demanded_of_each_component_that_has_a_majority() -> None:
    rows = trace(*GOOD, complete=True, healed=False)
    assert judge(rows, [{"a", "b", "c"}]) == []
    assert judge(rows, [{"a", "b"}, {"c"}]) == [
        "a/1 rests in view 2 ('a/1', 'b/1', 'c/2'), and ['a/1', 'b/1'] are up",
        "b/1 rests in view 2 ('a/1', 'b/1', 'c/2'), and ['a/1', 'b/1'] are up",
    ]


def test_a_minority_may_rest_in_no_view() -> None:
    assert judge(trace("a/1 start")) == []
