"""Write down what every member saw.

One recorder serves one sink and any number of members: a live process has one, the simulator has
one for hundreds. What is written is kept in a list until `flush`, which hands all of it to the
operating system: the host flushes before any packet or reply leaves, so that no other process can
have seen an effect whose cause is lost when this one is killed.

A member numbers its rows from incarnation * 2**32, so that a process killed in the middle needs to
know nothing when it comes back. A row for k messages takes k of these numbers; the last one is
kept for the `fail` row that a supervisor adds. An incarnation that has used up the others cannot
go on: its host starts the next one.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

from msgspec import defstruct

from covey.kernel.errors import MisuseError, WorldError
from covey.kernel.ids import MessageId
from covey.trace.schema import COLUMNS, COMMON, INT, MODELS

INDEX_BITS = 32

_CHANGEABLE = (list, dict, set)

LAST = (1 << INDEX_BITS) - 1
"""The last index of an incarnation, counted from its first: that of `fail`."""

_positional: list[Any] = [(name, COLUMNS[name].type) for name in COMMON]
_positional += [("message", object, None), ("count", int, 1)]
_named: list[Any] = [(name, object, None) for name in COLUMNS if name not in {*COMMON, "message", "count"}]

Record: Any = defstruct("Record", _positional + _named, omit_defaults=True, gc=False)
"""A row before it is encoded: fields in the order of the format; what is missing is left out."""


class Sink(Protocol):
    """Where rows go. `pending` is what was written since the last flush; anyone appends to it."""

    pending: list[Any]
    limit: int
    """How long `pending` may grow before it is flushed without being asked."""

    def flush(self) -> None:
        """Hand all that is pending to the operating system, and return when that is done."""

    def close(self) -> None:
        """Flush and finish the files."""


class Recorder:
    """The trace of one process, or of a whole simulated world."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._members: dict[tuple[str, str, int], Member] = {}

    def header(
        self,
        run: str,
        model: str | Iterable[str],
        complete: bool = False,
        healed: bool = False,
        universe: Iterable[str] | None = None,
    ) -> None:
        """Write the header of a run; a live member leaves `complete` and `healed` false."""
        models = [model] if isinstance(model, str) else list(model)
        if not models:
            raise MisuseError(f"a run needs a model, one of {', '.join(MODELS)}: it says what the run is judged by")
        if unknown := [name for name in models if name not in MODELS]:
            raise MisuseError(f"unknown model {unknown[0]!r}; the models are {', '.join(MODELS)}")
        _check_text("run", run)
        columns = {"model": models, "complete": complete, "healed": healed}
        places = None if universe is None else sorted(universe)
        self.sink.pending.append(Record(run, "", 1, 0, 0, "", "run", **columns, universe=places))

    def member(self, run: str, process: str, incarnation: int) -> "Member":
        """Who writes the rows of one incarnation; asked again, the same one, which goes on numbering."""
        key = (run, process, incarnation)
        if key not in self._members:
            self._members[key] = Member(self.sink, run, process, incarnation)
        return self._members[key]

    def flush(self) -> None:
        """Hand every row so far to the operating system before returning."""
        self.sink.flush()

    def close(self) -> None:
        """Flush, and finish the files."""
        self.sink.close()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Member:
    """Writes the rows of one incarnation of a process in one run."""

    __slots__ = ("_limit", "_next", "_pending", "_reserved", "_sink", "incarnation", "process", "run")

    def __init__(self, sink: Sink, run: str, process: str, incarnation: int) -> None:
        _check_text("run", run)
        _check_text("process", process)
        if not process:
            raise MisuseError("a process needs a name: an empty one marks the header of a run")
        if not 1 <= incarnation <= INT:
            raise MisuseError(f"incarnation {incarnation} is not one of 1 to {INT}")
        self.run = run
        self.process = process
        self.incarnation = incarnation
        self._sink = sink
        self._pending = sink.pending
        self._limit = sink.limit
        self._next = incarnation << INDEX_BITS
        self._reserved = self._next + LAST

    def write(
        self,
        time_ns: int,
        event: str,
        group: str = "",
        *,
        message: MessageId | str | None = None,
        count: int = 1,
        **columns: Any,
    ) -> None:
        """Write one row; `columns` are named as in the format.

        A list, dict or set is copied, so that its owner may go on changing it. Types are not looked
        at here, where every nanosecond is paid for: the reader does it.
        """
        index = self._next
        following = index + count
        if following > self._reserved or count < 1:
            raise self._out_of_numbers(count)
        if message.__class__ is MessageId:
            message = "{}/{}/{}".format(*message)
        for name, value in columns.items():
            if isinstance(value, _CHANGEABLE):
                columns[name] = _copy(value)
        try:
            row = Record(
                self.run, self.process, self.incarnation, index, time_ns, group, event, message, count, **columns
            )
        except TypeError as error:
            raise _no_such_column(columns, error) from None
        self._next = following
        pending = self._pending
        pending.append(row)
        if len(pending) >= self._limit:
            self._sink.flush()

    def write_fail(self, time_ns: int, config: str | None = None) -> None:
        """Write, as the one who killed it, that this incarnation crashed; nothing of it can follow."""
        if self._next > self._reserved:
            raise MisuseError(
                f"{self.process}/{self.incarnation} has failed already, or cannot: its numbers are used up"
            )
        self._next = self._reserved + 1
        self._pending.append(
            Record(self.run, self.process, self.incarnation, self._reserved, time_ns, "", "fail", config=config)
        )

    def _out_of_numbers(self, count: int) -> Exception:
        who = f"{self.process}/{self.incarnation}"
        if count < 1:
            return MisuseError(f"{who}: a row stands for {count} messages; leave out rows that stand for none")
        if self._next > self._reserved:
            return MisuseError(f"{who} has failed; the process goes on as incarnation {self.incarnation + 1}")
        return WorldError(f"{who} has used up its 2**{INDEX_BITS} indexes; start the next incarnation of the process")


def _copy(value: Any) -> Any:
    """A copy down to the leaves."""
    if isinstance(value, dict):
        return {name: _copy(part) if isinstance(part, _CHANGEABLE) else part for name, part in value.items()}
    if isinstance(value, list):
        return [_copy(part) if isinstance(part, _CHANGEABLE) else part for part in value]
    return set(value)


def _no_such_column(columns: dict[str, Any], error: TypeError) -> MisuseError:
    unknown = [name for name in columns if name not in COLUMNS]
    return MisuseError(f"no column is called {unknown[0]!r}" if unknown else str(error))


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MisuseError(f"{what} {text!r} cannot be written as UTF-8; choose another name") from None
