"""What the judges of ISIS say of traces that they cannot judge in full, and of what covey's own site layer does."""

from typing import Any

import pytest

from covey.cli.models import MODELS
from covey.sim.generate import scenario_of
from covey.sim.run import run
from covey.trace import MemorySink, Recorder
from tests.verify.judges import isis, isis85

Row = dict[str, Any]


def trace(model: str, *events: Row, complete: bool = True) -> list[Row]:
    """Rows of p, one for each event, after the header."""
    header = {"process": "", "index": 0, "group": "", "event": "run", "model": model}
    rows = [{"process": "p", "incarnation": 1, "index": index, "group": "g", **row} for index, row in enumerate(events)]
    return [{**header, "incarnation": 1, "complete": complete, "healed": complete}, *rows]


VIEW = {"event": "config", "config": "g1", "members": ["p"], "seq": 1}
SITE_VIEW = {**VIEW, "group": "", "members": ["p/1"]}
SEND = {"event": "send", "message": "p/1/1", "config": "g1", "service": "causal"}
DELIVER = {"event": "deliver", "message": "p/1/1", "config": "g1"}


def test_nothing_is_judged_in_an_empty_run() -> None:
    assert isis.skipped(trace("isis")).keys() == isis.PROPERTIES.keys()
    assert isis85.skipped(trace("isis85")).keys() == isis85.PROPERTIES.keys()


def test_orders_and_times_that_a_run_does_not_have_are_not_judged() -> None:
    assert isis.skipped(trace("isis", VIEW, SEND, DELIVER)) == {
        "ISIS-TOTAL": "nothing is sent as agreed",
        "ISIS-VT": "no send row has vt",
    }


def test_atomicity_is_not_judged_while_no_view_is_over() -> None:
    skipped = isis.skipped(trace("isis", VIEW, SEND, DELIVER, complete=False))
    assert skipped.keys() == {"ISIS-ATOM", "ISIS-GAP", "ISIS-TOTAL", "ISIS-VT"}


@pytest.mark.parametrize("column", ["members", "seq"])
def test_views_without_members_or_numbers_are_not_judged(column: str) -> None:
    view = {name: value for name, value in VIEW.items() if name != column}
    rows = trace("isis", view, SEND)
    assert isis.skipped(rows)["ISIS-VIEW"] == "a config row lacks members or seq"
    assert isis.judge(rows) == []


def test_the_rest_of_sites_is_judged_where_it_is_said_how_many_there_may_be() -> None:
    rows = trace("isis85", SITE_VIEW)
    assert isis85.skipped(rows)["I85-LIVE"] == "the header has no universe"
    assert "I85-LIVE" not in isis85.skipped([{**rows[0], "universe": ["p"]}, *rows[1:]])


def test_liveness_is_judged_of_complete_runs() -> None:
    store = {"event": "state", "counters": {"stored": 1}}
    assert isis85.skipped(trace("isis85", store, complete=False))["I85-GC"] == "the run is not complete"
    assert [found.property for found in isis85.judge(trace("isis85", store))] == ["I85-GC"]


@pytest.mark.parametrize("seed", range(20))
def test_the_site_layer_violates_nothing(seed: int) -> None:
    sink = MemorySink()
    run(scenario_of(MODELS["isis85"], seed), MODELS["isis85"], Recorder(sink))
    assert isis85.judge(sink.rows) == []
    assert not isis85.skipped(sink.rows).keys() & {"I85-SITE"}
