"""The numbers of a trace count messages, not rows."""

from pathlib import Path

from covey.trace import Row
from covey.trace.stat import TOTALS, trace_stat
from tests.trace.rows import HEADER, Columns, row, send, written_out

TRACE = [
    {**HEADER, "model": ["evs", "vs"], "complete": True},
    HEADER | {"run": "s"},
    row("start", 1),
    row("config", 2, config="v1", group="g"),
    send(3, 1, count=10),
    row("deliver", 13, message="p/1/1", count=7),
    row("deliver", 20, message="p/1/8"),
    row("start", 21, incarnation=2),
    row("config", 22, incarnation=2, config="v1", group="g"),
    row("config", 23, incarnation=2, config="v1", group="h"),
    row("start", 1, process="q"),
    row("start", 1, run="s"),
]


def rows(trace: list[Columns]) -> list[Row]:
    return [Row(columns, Path("p.jsonl"), number) for number, columns in enumerate(trace, start=1)]


def test_the_numbers_of_a_run() -> None:
    assert trace_stat(rows(TRACE))["runs"]["r"] == {
        "models": ["evs", "vs"],
        "complete": True,
        "healed": False,
        "rows": 10,
        "events": 25,
        "messages": 10,
        "deliveries": 8,
        "processes": 2,
        "incarnations": 3,
        "views": 2,
        "by_event": {"config": 3, "deliver": 8, "run": 1, "send": 10, "start": 3},
    }


def test_the_totals_are_the_sums_over_the_runs() -> None:
    numbers = trace_stat(rows(TRACE))
    assert list(numbers["runs"]) == ["r", "s"]
    assert (numbers["rows"], numbers["processes"], numbers["incarnations"]) == (12, 3, 4)
    assert {name: numbers[name] for name in TOTALS} == {
        name: sum(run[name] for run in numbers["runs"].values()) for name in TOTALS
    }


def test_runs_written_out_change_only_the_number_of_rows() -> None:
    together, apart = trace_stat(rows(TRACE)), trace_stat(rows([*written_out(TRACE)]))
    assert apart["rows"] == together["rows"] + 9 + 6
    for numbers in (together, apart):
        del numbers["rows"], numbers["runs"]["r"]["rows"]
    assert apart == together
