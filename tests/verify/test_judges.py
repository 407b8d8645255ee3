"""The plain judges find what a trace violates, all that follows from it, and nothing where it is close but right.

A model has a judge (`judges/MODEL.py`: `judge(rows)` and `skipped(rows)`), hand-made traces (`traces/MODEL.jsonl`:
many small runs, whose headers say what each violates and why, or why it only comes close), and random ones
(`random_traces/MODEL.py`: `trace(seed)`, whose header has a column `mutation` if something was done to a good run).
"""

import json
from collections import Counter, defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from covey.trace.reader import check_trace
from covey.trace.row import ordered
from covey.trace.schema import MODELS
from tests.verify.runs import in_runs, written_out

HERE = Path(__file__).parent

PROPERTIES = {
    "evs": "EVS-1.1 EVS-1.2 EVS-1.3 EVS-1.4 EVS-2.1 EVS-2.2 EVS-2.3 EVS-2.4 EVS-2.5 EVS-2.6 EVS-2.7 EVS-3 EVS-4 EVS-5 "
    "EVS-6.1 EVS-6.2 EVS-6.3 EVS-7.1 EVS-7.2 EVS-LIVE PC-1 PC-2",
    "vs": "VS-C1 VS-C2 VS-C3 VS-L1 VS-L2 VS-L3 VS-L4 VS-L5 VS-F1 VS-F2 VS-F3",
    "isis": "ISIS-VIEW ISIS-ADDR ISIS-ATOM ISIS-CAUSAL ISIS-TOTAL ISIS-FLUSH ISIS-GAP ISIS-VT",
    "isis85": "I85-SITE I85-LIVE I85-ATOM I85-BCAST I85-OBCAST I85-GBCAST I85-FAIL I85-ADDR I85-FLUSH I85-LOCK I85-GC",
    "mtp": "MTP-AB1 MTP-AB2 MTP-FATE MTP-ORDER MTP-RATE MTP-JOIN",
    "vsm": "VSM-VIEW VSM-ORDER VSM-FIFO VSM-WITHIN VSM-SAFE",
    "rds": "RDS-DONE RDS-ONCE RDS-SEQ RDS-WAIT RDS-PRIMARY RDS-BALANCE RDS-LIVE",
}
ALWAYS_HOLD = {"EVS-1.2"}
"""What holds of every trace that can be read."""

Row = dict[str, Any]


def models(folder: str, suffix: str) -> list[str]:
    return [model for model in MODELS if (HERE / folder / f"{model}{suffix}").exists()]


JUDGED = models("judges", ".py")
WITH_TRACES = [model for model in models("traces", ".jsonl") if model in JUDGED]
WITH_RANDOM_TRACES = [model for model in models("random_traces", ".py") if model in JUDGED]


def properties(model: str) -> list[str]:
    return [property for property in PROPERTIES[model].split() if property not in ALWAYS_HOLD]


@cache
def runs(model: str) -> dict[str, list[Row]]:
    """The hand-made ones, by name."""
    found: dict[str, list[Row]] = defaultdict(list)
    for line in (HERE / "traces" / f"{model}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["run"]].append(row)
    return dict(found)


def header(rows: list[Row]) -> Row:
    return next(row for row in rows if row["event"] == "run")


def judge_of(model: str) -> ModuleType:
    return import_module(f"tests.verify.judges.{model}")


def violated(model: str, rows: list[Row]) -> list[str]:
    return sorted({violation.property for violation in judge_of(model).judge(rows)})


@cache
def random_trace(model: str, seed: int) -> list[Row]:
    trace: list[Row] = import_module(f"tests.verify.random_traces.{model}").trace(seed)
    return trace


@pytest.mark.parametrize(("model", "run"), [(model, run) for model in WITH_TRACES for run in runs(model)])
def test_the_judge_finds_what_a_hand_made_run_violates(model: str, run: str) -> None:
    rows = runs(model)[run]
    assert violated(model, rows) == header(rows)["violates"], judge_of(model).judge(rows)


@pytest.mark.parametrize("model", WITH_TRACES)
def test_each_property_is_violated_by_one_hand_made_run_and_nearly_by_another(model: str) -> None:
    told = {run: set(header(rows)["violates"]) for run, rows in runs(model).items()}
    about = {run: run.partition(":")[0].split(", ") for run in runs(model)}
    for property in properties(model):
        assert any(property in about[run] and property in told[run] for run in told), property
        assert any(property in about[run] and property not in told[run] for run in told), property
    assert set().union(*told.values()) <= set(properties(model))


@pytest.mark.parametrize("model", WITH_TRACES)
def test_hand_made_traces_can_be_trusted(model: str) -> None:
    check_trace(HERE / "traces" / f"{model}.jsonl")
    for rows in runs(model).values():
        assert rows[0]["event"] == "run"
        assert rows[0]["comment"]
        assert rows[0]["violates"] == sorted(set(rows[0]["violates"]))
        assert all(list(row) == list(ordered(row)) for row in rows)


@pytest.mark.parametrize("model", WITH_TRACES)
def test_a_run_of_messages_in_one_row_is_judged_like_its_messages(model: str) -> None:
    for rows in runs(model).values():
        assert violated(model, written_out(rows)) == header(rows)["violates"]
        assert violated(model, in_runs(written_out(rows))) == header(rows)["violates"]


@pytest.mark.parametrize("model", WITH_TRACES)
def test_the_order_of_lines_carries_no_meaning(model: str) -> None:
    for rows in runs(model).values():
        assert violated(model, rows[::-1]) == header(rows)["violates"]


@pytest.mark.parametrize("model", WITH_TRACES)
def test_what_is_violated_is_not_skipped(model: str) -> None:
    for rows in runs(model).values():
        skipped = judge_of(model).skipped(rows)
        assert skipped.keys() <= set(properties(model)) | ALWAYS_HOLD
        assert not skipped.keys() & set(header(rows)["violates"])
        assert all(skipped.values()), "each with a reason"


@pytest.mark.parametrize("model", WITH_RANDOM_TRACES)
def test_good_random_runs_violate_nothing(model: str) -> None:
    good = [rows for rows in (random_trace(model, seed) for seed in range(300)) if "mutation" not in header(rows)]
    assert len(good) > 30
    for rows in good:
        assert judge_of(model).judge(rows) == [], header(rows)["run"]


@pytest.mark.parametrize("model", WITH_RANDOM_TRACES)
def test_mutated_random_runs_violate_each_property(model: str) -> None:
    found = Counter(property for seed in range(1000) for property in violated(model, random_trace(model, seed)))
    assert set(found) == set(properties(model)), found


@pytest.mark.parametrize("model", WITH_RANDOM_TRACES)
def test_random_traces_can_be_trusted_and_repeated(model: str, tmp_path: Path) -> None:
    fresh = import_module(f"tests.verify.random_traces.{model}").trace
    with (tmp_path / "random.jsonl").open("w", encoding="utf-8") as file:
        for seed in range(100):
            rows = random_trace(model, seed)
            assert fresh(seed) == rows
            file.writelines(json.dumps(row) + "\n" for row in rows)
    check_trace(tmp_path)


@pytest.mark.parametrize("model", WITH_RANDOM_TRACES)
def test_random_runs_of_messages_are_judged_like_their_messages(model: str) -> None:
    for seed in range(100):
        rows = random_trace(model, seed)
        assert violated(model, written_out(rows)) == violated(model, rows)


def test_what_is_written_out_can_be_put_together_again() -> None:
    common = {"run": "r", "process": "p", "incarnation": 1, "time_ns": 0, "group": "g"}
    rows = [
        {**common, "index": 3, "event": "send", "message": "p/1/7", "vt": {"g": {"p": 4, "q": 2}, "h": {"p": 1}}},
        {**common, "index": 6, "event": "deliver", "message": "p/1/7", "ordinal": 10},
    ]
    rows = [{**row, "count": 3} for row in rows]
    each = written_out(rows)
    assert [row["index"] for row in each] == [3, 4, 5, 6, 7, 8]
    assert [row["message"] for row in each] == ["p/1/7", "p/1/8", "p/1/9"] * 2
    assert [row["vt"] for row in each[:3]] == [{"g": {"p": own, "q": 2}, "h": {"p": 1}} for own in (4, 5, 6)]
    assert [row["ordinal"] for row in each[3:]] == [10, 11, 12]
    assert in_runs(each) == rows
