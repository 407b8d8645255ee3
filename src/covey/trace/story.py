"""What one message, or one view, went through: the rows about it, told in order.

Finding and telling are apart. `story_of_message` and `story_of_view` give steps, which are data;
`tell` makes one line of a step.

The order is the local order within each process, and by the clocks between processes, which need
not agree: where a delivery stands above its send, the clocks differ by that much.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby
from typing import Any, NamedTuple

from covey.kernel.ids import MessageId
from covey.trace.row import Columns, Row, ordered


class Step(NamedTuple):
    """One event of a story."""

    run: str
    who: str
    """process/incarnation"""
    since_ns: int
    """Local time since the first step of the same run."""
    columns: Columns

    def data(self) -> dict[str, Any]:
        """The row, with the relative time before it."""
        return {"since_ns": self.since_ns, **ordered(self.columns)}


def story_of_message(rows: Iterable[Row], message: MessageId) -> Iterator[Step]:
    """Every row about the message; of a row that stands for several, its part."""
    return _in_order(columns for row in rows if (columns := _about(row, message)))


def story_of_view(rows: Iterable[Row], view: str) -> Iterator[Step]:
    """Every row in the view, its installations, those that end it with a transitional one, and who crashed in it."""
    found: list[Columns] = []
    installed: dict[tuple[object, ...], Row] = {}
    crashes: list[Row] = []
    for row in rows:
        if view in (row.columns.get("config"), row.columns.get("previous")):
            found.append(row.columns)
        if row.event == "config":
            key = (*_life(row), row.columns["group"])
            installed[key] = max(installed.get(key, row), row, key=lambda each: each.index)
        elif row.event == "fail" and "config" not in row.columns:
            crashes.append(row)
    ended = {_life(row) for row in installed.values() if row.columns["config"] == view}
    return _in_order([*found, *(row.columns for row in crashes if _life(row) in ended)])


def _life(row: Row) -> tuple[str, str, int]:
    return row.run, row.process, row.incarnation


def tell(step: Step) -> str:
    """What happened, as a sentence without its subject."""
    columns = step.columns
    text = _SENTENCES.get(columns["event"], _plainly)(columns)
    return f"{text} [group {columns['group']}]" if columns["group"] else text


def _about(row: Row, message: MessageId) -> Columns | None:
    first = row.message
    if first is None or first[:2] != message[:2]:
        return None
    offset = message.number - first.number
    if not 0 <= offset < row.count:
        return None
    return _part(row, message, offset)


def _part(row: Row, message: MessageId, offset: int) -> Columns:
    """The one message's row out of a row that may stand for several."""
    columns = {name: value for name, value in row.columns.items() if name != "count"}
    columns["message"] = str(message)
    for name in ("index", "ordinal", "number"):
        if name in columns:
            columns[name] += offset
    if row.event == "send" and "vt" in columns:
        columns["vt"] = _grown(columns["vt"], row, offset)
    return columns


def _grown(vt: dict[str, dict[str, int]], row: Row, offset: int) -> dict[str, dict[str, int]]:
    """The sender's own entry in the group of the message grows by one a message."""
    group = row.columns["group"]
    own = vt.get(group, {})
    names = (row.process, f"{row.process}/{row.incarnation}")
    return {**vt, group: {name: count + offset if name in names else count for name, count in own.items()}}


def _in_order(found: Iterable[Columns]) -> Iterator[Step]:
    everything = sorted(found, key=lambda columns: (columns["run"], columns["process"], columns["index"]))
    for run, rows in groupby(everything, key=lambda columns: str(columns["run"])):
        by_process = [list(own) for _, own in groupby(rows, key=lambda columns: str(columns["process"]))]
        start = None
        for columns in merge(*by_process, key=lambda columns: int(columns["time_ns"])):
            start = columns["time_ns"] if start is None else start
            who = f"{columns['process']}/{columns['incarnation']}"
            yield Step(run, who, columns["time_ns"] - start, columns)


def _config(columns: Columns) -> str:
    words = ["installs", columns.get("kind"), columns["config"]]
    if "members" in columns:
        words.append("{" + " ".join(columns["members"]) + "}")
    if columns.get("primary"):
        words.append("(primary)")
    if "ordinal" in columns:
        words.append(f"from ordinal {columns['ordinal']}")
    return " ".join(word for word in words if word)


def _messages(columns: Columns) -> str:
    count = columns.get("count", 1)
    if count == 1:
        return str(columns.get("message", columns.get("number")))
    first = MessageId.parse(columns["message"]) if "message" in columns else columns["number"]
    last = first._replace(number=first.number + count - 1) if isinstance(first, MessageId) else first + count - 1
    return f"{first} to {last}"


def _with_message(verb: str) -> Callable[[Columns], str]:
    def sentence(columns: Columns) -> str:
        text = f"{verb} {_messages(columns)}"
        for word, name in (("to", "dests"), ("as", "service"), ("in", "config"), ("at ordinal", "ordinal")):
            if name in columns:
                value = columns[name]
                text += f" {word} {' '.join(value) if isinstance(value, list) else value}"
        return text

    return sentence


def _ending(verb: str) -> Callable[[Columns], str]:
    return lambda columns: f"{verb} in {columns['config']}" if "config" in columns else verb


def _plainly(columns: Columns) -> str:
    hidden = {"run", "process", "incarnation", "index", "time_ns", "group", "event"}
    return " ".join([columns["event"], *(f"{name}={value}" for name, value in columns.items() if name not in hidden)])


_SENTENCES: dict[str, Callable[[Columns], str]] = {
    "config": _config,
    "send": _with_message("sends"),
    "deliver": _with_message("delivers"),
    "safe": _with_message("knows that all have"),
    "accept": _with_message("learns of the acceptance of"),
    "reject": _with_message("rejects"),
    "fail": _ending("crashes"),
    "stop": _ending("leaves"),
}
