"""One row, and the rules that it must keep by itself.

`parse_row` turns the columns found in a file into a `Row`, or raises a TraceError that names the
place. The rules that need more than one row are in `covey.trace.crosscheck`.

Two columns have two spellings: `model` and `master` are a string or a list. A Row holds the list,
whatever the file holds, so that both encodings give the same rows. A null is a missing column.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert, defstruct

from covey.kernel.errors import MisuseError
from covey.kernel.ids import MessageId, ProcessId
from covey.trace.errors import Place, TraceError
from covey.trace.schema import COLUMNS, COMMON, COUNTED, EVENTS, INT, LONG

Columns = dict[str, Any]

_Id = TypeVar("_Id")


class Row:
    """One checked row; `columns` holds all it says, unknown columns too."""

    __slots__ = ("columns", "file", "number")

    def __init__(self, columns: Columns, file: Path, number: int) -> None:
        self.columns = columns
        self.file = file
        self.number = number

    def __repr__(self) -> str:
        return f"Row({self.columns!r}, {str(self.place)!r})"

    @property
    def place(self) -> Place:
        """File and line, for messages."""
        return Place(self.file, self.number)

    @property
    def run(self) -> str:
        run: str = self.columns["run"]
        return run

    @property
    def process(self) -> str:
        process: str = self.columns["process"]
        return process

    @property
    def incarnation(self) -> int:
        incarnation: int = self.columns["incarnation"]
        return incarnation

    @property
    def index(self) -> int:
        index: int = self.columns["index"]
        return index

    @property
    def event(self) -> str:
        event: str = self.columns["event"]
        return event

    @property
    def count(self) -> int:
        """How many messages the row stands for."""
        count: int = self.columns.get("count", 1)
        return count

    @property
    def last(self) -> int:
        """The last index that the row occupies."""
        return self.index + self.count - 1

    @property
    def message(self) -> MessageId | None:
        """The message, the first of them where the row stands for a run."""
        text = self.columns.get("message")
        return None if text is None else MessageId.parse(text)


def parse_row(columns: Columns, file: Path, number: int) -> Row:
    """Check the columns of one row and take them, or say what is wrong with them."""
    if None in columns.values():  # a null is a missing column
        columns = {name: value for name, value in columns.items() if value is not None}
    try:
        _check(columns)
    except MisuseError as error:
        raise TraceError(Place(file, number), str(error)) from None
    for name in ("model", "master"):
        if isinstance(columns.get(name), str):
            columns[name] = [columns[name]]
    return Row(columns, file, number)


def ordered(columns: Columns) -> Columns:
    """The same columns in the order of the format, unknown ones last, as they came."""
    known = {name: columns[name] for name in COLUMNS if name in columns}
    return {**known, **columns}


def _checked_type(event: str) -> type:
    required = {*COMMON, *EVENTS[event].required}
    fields: list[Any] = [(name, COLUMNS[name].type) for name in COLUMNS if name in required]
    fields += [(name, COLUMNS[name].type, None) for name in COLUMNS if name not in required]
    return defstruct(f"{event}_row", fields, gc=False)


# Most ids are told to be right at a glance; the others are taken apart.
_PLAIN_MESSAGE = re.compile(r"(?s).+/[1-9][0-9]{0,8}/(?:0|[1-9][0-9]{0,17})").fullmatch
_SMALL = 10**18

_TYPES = {event: _checked_type(event) for event in EVENTS}


def _check(columns: Columns) -> None:
    event = columns.get("event")
    if event is None:
        raise MisuseError("the column event is missing")
    if not isinstance(event, str) or event not in _TYPES:
        raise MisuseError(f"unknown event {event!r}; the events are {', '.join(EVENTS)}")
    try:
        convert(columns, _TYPES[event])
    except ValidationError as error:
        raise MisuseError(_in_words(event, str(error))) from None
    _check_owner(event, columns)
    _check_run_of_messages(event, columns)
    either = EVENTS[event].either
    if either and columns.keys().isdisjoint(either):
        raise MisuseError(f"a {event} row needs one of the columns {', '.join(either)}")
    if "subject" in columns:
        _parse(ProcessId.parse, "subject", columns["subject"])


def _check_owner(event: str, columns: Columns) -> None:
    if event != "run":
        if columns["process"] == "":
            raise MisuseError("process is empty, which only the header of a run may be")
    elif columns["process"] != "" or columns["index"] != 0:
        raise MisuseError('the header of a run has process "" and index 0')


def _check_run_of_messages(event: str, columns: Columns) -> None:
    count = columns.get("count", 1)
    if count > 1 and event not in COUNTED:
        raise MisuseError(f"a {event} row has count {count}; only {', '.join(COUNTED)} stand for several messages")
    if count > 1:
        for name in ("index", "ordinal", "number"):
            if columns.get(name, 0) + count - 1 > LONG:
                raise MisuseError(f"column {name}: {columns[name]} with count {count} goes beyond 64 bits")
    text = columns.get("message")
    if text is not None and (count > _SMALL or not _PLAIN_MESSAGE(text)):
        _check_message(text, count)


def _check_message(text: str, count: int) -> None:
    message = _parse(MessageId.parse, "message", text)
    if not message.process:
        raise MisuseError(f"column message: the process of {text!r} has no name")
    if message.incarnation > INT or message.number + count - 1 > LONG:
        raise MisuseError(f"column message: {text!r} goes beyond 32 bits of incarnation or 64 of number")


def _parse(parse: Callable[[str], _Id], name: str, text: str) -> _Id:
    try:
        return parse(text)
    except ValueError:  # int() has its own for thousands of digits
        raise MisuseError(f"column {name}: {text[:100]!r} is not {COLUMNS[name].words}") from None


def _in_words(event: str, error: str) -> str:
    """What msgspec found, in the words of the format."""
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", error):
        return f"a {event} row needs the column {missing[1]}, which is missing"
    if found := re.fullmatch(r"(?s)(.*) - at `\$\.(.*)`", error):
        return f"column {found[2]}: {found[1][0].lower()}{found[1][1:]}".replace("`", "")
    return error
