"""The tables say what the format says."""

import pytest

from covey.trace.schema import COLUMNS, COMMON, COUNTED, EVENTS, MODELS

# The table of events of the trace format, version 1, copied by hand; `count` is described below it.
FORMAT = {
    "run": "model complete healed universe",
    "start": "recovered",
    "fail": "config",
    "stop": "config",
    "config": "config kind members seq primary previous ordinal master",
    "send": "message config service label dests vt size action subject request count",
    "deliver": "message config ordinal count",
    "safe": "message config count",
    "accept": "number message count",
    "reject": "number message",
    "flush": "",
    "request": "client request op body",
    "apply": "client request position",
    "answer": "client request position result config turn",
    "reply": "client request position result",
    "lock": "client item mode",
    "unlock": "client item mode",
    "state": "position digest counters",
}


def test_the_events_are_those_of_the_format() -> None:
    assert list(EVENTS) == list(FORMAT)


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_has_the_columns_of_the_format(event: str) -> None:
    assert sorted(EVENTS[event].columns) == sorted(FORMAT[event].split())


def test_every_column_belongs_to_an_event() -> None:
    own = {name for event in EVENTS.values() for name in event.columns}
    assert {*COMMON, *own} == set(COLUMNS)


def test_the_events_that_stand_for_several_messages_are_those_with_a_count() -> None:
    assert tuple(event for event in EVENTS if "count" in EVENTS[event].columns) == COUNTED


def test_the_models_are_those_of_the_format() -> None:
    assert " ".join(MODELS) == "evs vs isis isis85 mtp vsm rds"
