"""Rows to test with: one of each kind by hand, and random ones drawn from the tables of the schema."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from covey.trace import Recorder, Row, read_trace
from covey.trace.schema import COLUMNS, COMMON, COUNTED, EVENTS

Columns = dict[str, Any]

HEADER: Columns = {
    "run": "r",
    "process": "",
    "incarnation": 1,
    "index": 0,
    "time_ns": 0,
    "group": "",
    "event": "run",
    "model": ["evs"],
    "complete": False,
    "healed": False,
}


def row(event: str, index: int, /, **columns: Any) -> Columns:
    """A row of process p; what is given replaces what is usual."""
    usual = {"run": "r", "process": "p", "incarnation": 1, "index": index, "time_ns": index, "group": ""}
    return {**usual, "event": event, **columns}


def send(index: int, number: int, /, **columns: Any) -> Columns:
    return row("send", index, **{"message": f"p/1/{number}", **columns})


def write(path: Path, *rows: Columns) -> Path:
    """A file of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def record(recorder: Recorder) -> None:
    """A short life: a header, a start, a view, a run of messages and their deliveries."""
    recorder.header("r", "evs", universe=["p", "q"])
    member = recorder.member("r", "p", 1)
    member.write(10, "start", recovered=False)
    member.write(20, "config", "g", config="v1", kind="regular", members=["p", "q"], seq=1)
    member.write(30, "send", "g", message="p/1/1", count=3, config="v1", vt={"g": {"p": 1, "q": 0}})
    member.write(40, "deliver", "g", message="p/1/1", count=3, config="v1", ordinal=7)
    recorder.flush()


def columns_of(path: Path) -> list[Columns]:
    return [each.columns for each in read_trace(path)]


def written_out(rows: Iterable[Columns]) -> Iterator[Columns]:
    """The same trace, with a row for every message."""
    for columns in rows:
        for k in range(columns.get("count", 1)):
            yield {name: _later(name, value, k, columns) for name, value in columns.items() if name != "count"}


def _later(name: str, value: Any, k: int, columns: Columns) -> Any:
    """What the k-th message after the first has in that column, by the words of TRACE.md on runs."""
    if name in ("index", "ordinal", "number"):
        return value + k
    if name == "message":
        start, _, number = value.rpartition("/")
        return f"{start}/{int(number) + k}"
    if name == "vt" and columns["event"] == "send":
        group, process = columns["group"], columns["process"]
        return {g: {p: n + k if (g, p) == (group, process) else n for p, n in c.items()} for g, c in value.items()}
    return value


# --- random rows


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a column's type."""
    if get_origin(kind) is Annotated:
        base, meta = get_args(kind)
        if get_origin(base) is list:
            return st.lists(values(*get_args(base)), min_size=meta.min_length, max_size=3)
        return st.integers(meta.ge, meta.le) | st.integers(max(meta.ge, 0), 9)
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    if get_origin(kind) is list:
        return st.lists(values(*get_args(kind)), max_size=3)
    if get_origin(kind) is dict:
        return st.dictionaries(*map(values, get_args(kind)), max_size=3)
    if get_origin(kind) in (Union, UnionType):
        return st.one_of(*map(values, get_args(kind)))
    return {str: st.text(max_size=9), bool: st.booleans()}[kind]


_name = st.text(min_size=1, max_size=9)
_incarnation = values(COLUMNS["incarnation"].type)

_json = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2),
    max_leaves=4,
)
_unknown = st.dictionaries(st.text(max_size=9).filter(lambda name: name not in COLUMNS), _json, max_size=2)

SMALL = 2**20
"""A row for several messages starts below this in every number, so that none of them overflows."""


@st.composite
def random_rows(draw: st.DrawFn) -> Columns:
    """Any row that keeps the rules which a row must keep by itself."""
    event = draw(st.sampled_from(list(EVENTS)))
    kind = EVENTS[event]
    names = {*COMMON, *kind.required, *draw(st.sets(st.sampled_from(kind.optional or ("event",))))}
    names |= draw(st.sets(st.sampled_from(kind.either), min_size=1)) if kind.either else set()
    columns = {name: draw(values(column.type)) for name, column in COLUMNS.items() if name in names}
    columns |= {"event": event, "process": draw(_name)}
    if event == "run":
        columns |= {"process": "", "index": 0}
    if "subject" in columns:
        columns["subject"] = f"{draw(_name)}/{draw(_incarnation)}"
    if "message" in columns:
        columns["message"] = f"{draw(_name)}/{draw(_incarnation)}/{draw(values(COLUMNS['index'].type))}"
    if event in COUNTED and "count" in columns:
        columns["count"] = draw(st.integers(1, SMALL))
        columns |= {name: draw(st.integers(0, SMALL)) for name in ("index", "ordinal", "number") if name in columns}
        if "message" in columns:
            columns["message"] = f"{draw(_name)}/{draw(_incarnation)}/{draw(st.integers(0, SMALL))}"
    return {**columns, **draw(_unknown)}


def as_read(columns: Columns) -> Columns:
    """The columns as a reader gives them: one model, or one master, is a list of one."""
    listed = {name: [columns[name]] for name in ("model", "master") if isinstance(columns.get(name), str)}
    return {**columns, **listed}


def places(rows: Iterable[Row]) -> list[str]:
    return [str(each.place) for each in rows]
