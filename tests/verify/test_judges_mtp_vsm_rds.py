"""What is particular to the judges of mtp, of the VS service and of the replicated data service: what they skip."""

from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from tests.verify.judges import mtp, rds, vsm

Row = dict[str, Any]


def trace(model: str, *rows: Row, complete: bool = False, healed: bool = False) -> list[Row]:
    """A run of process p, unless a row tells of another."""
    common = {"run": "r", "incarnation": 1, "time_ns": 0, "group": ""}
    header = {**common, "process": "", "index": 0, "event": "run", "model": model}
    told = [{**common, "process": "p", "index": index, **row} for index, row in enumerate(rows)]
    return [{**header, "complete": complete, "healed": healed}, *told]


JOIN = {"event": "config", "config": "1", "ordinal": 1, "master": "m"}
VIEW = {"event": "config", "config": "1", "seq": 1, "members": ["p"], "primary": True}
ASKED = {"event": "request", "request": "r1", "client": "c", "op": "query", "body": "get k"}
ANSWERED = {"event": "answer", "request": "r1", "client": "c", "position": 0, "result": "nil", "config": "1"}


@pytest.mark.parametrize("judge", [mtp, vsm, rds])
def test_an_empty_run_violates_nothing_and_every_property_is_skipped(judge: ModuleType) -> None:
    for complete in (False, True):
        rows = trace(judge.__name__.rpartition(".")[2], complete=complete, healed=complete)
        assert judge.judge(rows) == []
        assert judge.skipped(rows).keys() == {each.id for each in judge.PROPERTIES}


@pytest.mark.parametrize(
    ("judge", "rows", "judged"),
    [
        (vsm, [VIEW], "VSM-VIEW"),
        (vsm, [{"event": "config", "config": "1"}], ""),
        (vsm, [VIEW, {"event": "send", "message": "p/1/1"}], "VSM-VIEW VSM-WITHIN"),
        (vsm, [VIEW, {"event": "fail", "config": "1"}], "VSM-VIEW VSM-WITHIN"),
        (mtp, [JOIN], ""),
        (mtp, [JOIN, {"event": "reject", "number": 1}], "MTP-FATE"),
        (mtp, [JOIN, {"event": "state", "counters": {"sent": 1, "window": 1}}], "MTP-RATE"),
        (mtp, [JOIN, {"event": "state", "counters": {"sent": 1}}], ""),
        (mtp, [JOIN, {"event": "state", "position": 0, "digest": "#"}], ""),
        (rds, [VIEW], "RDS-PRIMARY"),
        (rds, [{**VIEW, "primary": None}], ""),
        (rds, [VIEW, {"event": "state", "counters": {"safe_to_update": 0, "updates": 0}}], "RDS-PRIMARY RDS-WAIT"),
        (rds, [VIEW, ASKED, ANSWERED], "RDS-PRIMARY RDS-SEQ"),
        (rds, [VIEW, ASKED, {**ANSWERED, "turn": 1}], "RDS-PRIMARY RDS-SEQ RDS-BALANCE"),
    ],
)
def test_a_property_is_judged_where_there_is_evidence(judge: ModuleType, rows: list[Row], judged: str) -> None:
    skipped = judge.skipped(trace(judge.__name__.rpartition(".")[2], *rows))
    assert {each.id for each in judge.PROPERTIES} - skipped.keys() == set(judged.split())


def test_liveness_is_judged_of_a_run_that_is_complete_and_healed() -> None:
    accepted = [JOIN, {"event": "accept", "number": 1, "message": "p/1/1"}]
    for complete, healed in [(False, False), (False, True), (True, False), (True, True)]:
        is_judged = complete and healed
        rows = trace("mtp", *accepted, complete=complete, healed=healed)
        assert ("MTP-AB2" in mtp.skipped(rows)) is not is_judged
        assert ["MTP-AB2" for _ in range(is_judged)] == [each.property for each in mtp.judge(rows)]
        rows = trace("rds", VIEW, ASKED, complete=complete, healed=healed)
        assert ("RDS-LIVE" in rds.skipped(rows)) is not is_judged
        assert ["RDS-LIVE" for _ in range(is_judged)] == [each.property for each in rds.judge(rows)]


def test_answers_without_turns_are_counted_where_a_complete_run_rests() -> None:
    rows = [VIEW, ASKED, ANSWERED]
    assert "RDS-BALANCE" not in rds.skipped(trace("rds", *rows, complete=True))
    assert "RDS-BALANCE" in rds.skipped(trace("rds", *rows, {"event": "fail"}, complete=True))


def test_a_group_is_judged_where_another_has_no_evidence() -> None:
    one = [{**row, "group": "g"} for row in (VIEW, ASKED)]
    other = [{**row, "group": "h"} for row in (VIEW, ASKED, {**ANSWERED, "result": "1"})]
    rows = trace("rds", *one, *other)
    assert [each.property for each in rds.judge(rows)] == ["RDS-SEQ"]
    assert "RDS-SEQ" not in rds.skipped(rows)


def test_a_failure_of_the_process_is_one_in_each_of_its_groups() -> None:
    sent = {"event": "send", "message": "p/1/1", "config": "1"}
    rows = trace("vsm", {**VIEW, "group": "g"}, {**VIEW, "group": "h"}, {"event": "fail"}, {**sent, "group": "h"})
    assert [str(each.why) for each in vsm.judge(rows)] == ["p sends p/1/1 in 1, and has none installed"]
    rows[3]["group"] = "g"
    rows[3]["event"] = "stop"
    assert vsm.judge(rows) == []


def test_a_violation_says_who_did_what() -> None:
    rows = trace("mtp", JOIN, {"event": "accept", "number": 2}, {"event": "reject", "number": 2, "process": "m"})
    assert mtp.judge(rows) == [("MTP-FATE", "p accepts 2, and m rejects it")]


@pytest.mark.parametrize("model", ["evs", "vs", "mtp", "vsm", "rds"])
def test_what_is_mutated_was_good(model: str) -> None:
    judge = import_module(f"tests.verify.judges.{model}")
    random = import_module(f"tests.verify.random_traces.{model}")
    for seed in range(300):
        assert judge.judge(random.good(seed)) == [], seed
    assert sum("mutation" in random.trace(seed)[0] for seed in range(300)) > 150
