"""docs/reference/trace.md says what the tables of the schema say, and its example is a trace."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from covey.trace import check_trace
from covey.trace.convert import convert_trace
from covey.trace.schema import COLUMNS, COMMON, COUNTED, EVENTS, MODELS, Service
from tests.trace.rows import columns_of, write

PAGE = (Path(__file__).parents[2] / "docs/reference/trace.md").read_text()

IN_PARQUET = {
    "string": "string",
    "message": "three columns, see below",
    "json": "string that holds JSON",
    "int": "int32",
    "long": "int64",
    "bool": "bool",
    "strings": "list of string",
    "counts": "map of string to int64",
    "clocks": "map of string to such a map",
}


def table(*rows: tuple[str, ...]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows).replace("|  |", "| |")


def columns(names: Iterator[str]) -> str:
    rows = [
        (f"`{name}`", *COLUMNS[name][2:3], IN_PARQUET[COLUMNS[name].arrow], COLUMNS[name].meaning) for name in names
    ]
    return table(("column", "value", "in Parquet", "meaning"), ("---",) * 4, *rows)


def events() -> str:
    rows = [
        (f"`{name}`", event.meaning, words(event.required) or words(event.either, " or "), words(event.optional))
        for name, event in EVENTS.items()
    ]
    return table(("event", "meaning", "needs", "may have"), ("---",) * 4, *rows)


def words(names: tuple[str, ...], between: str = " ") -> str:
    return between.join(f"`{name}`" for name in names)


@pytest.mark.parametrize(
    "expected",
    [columns(iter(COMMON)), columns(name for name in COLUMNS if name not in COMMON), events()],
    ids=["columns of every row", "further columns", "events"],
)
def test_the_page_has_the_tables_of_the_schema(expected: str) -> None:
    assert expected in PAGE, f"put this into docs/reference/trace.md:\n{expected}"


@pytest.mark.parametrize("name", [*MODELS, *get_args(Service)])
def test_the_page_explains_every_model_and_service(name: str) -> None:
    assert re.search(rf"^\| `{name}` \| \S", PAGE, flags=re.MULTILINE)


def test_the_page_names_the_events_that_stand_for_several_messages() -> None:
    assert "A `send`, `deliver`, `safe` or `accept` row may carry `count`" in PAGE
    assert COUNTED == ("send", "deliver", "safe", "accept")


def test_the_example_is_a_trace_in_both_encodings(tmp_path: Path) -> None:
    [example] = re.findall(r"^```json\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    write(tmp_path / "lines/all.jsonl", *json.loads(example))
    check_trace(tmp_path / "lines")
    list(convert_trace(tmp_path / "lines", tmp_path / "parquet", "parquet"))
    check_trace(tmp_path / "parquet")
    assert columns_of(tmp_path / "parquet") == columns_of(tmp_path / "lines")
